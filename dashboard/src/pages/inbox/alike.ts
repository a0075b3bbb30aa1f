/** Which questions may be answered together: the same in all but their arguments, few, short, and no payments. */

import type { Approval } from '../../api/asks'

export const MOST_TOGETHER = 20
/** Is how long arguments may be to be read in one line of a list. */
export const SHORT = 300

/** Gives the other open questions of the same tool, class, rule and policy; none about payments, whatever they are. */
export function alike(one: Approval, others: readonly Approval[]): Approval[] {
  if (one.side_effect === 'payment' || one.needs_signature || one.status !== 'pending') return []
  const isAlike = (other: Approval) =>
    other.id !== one.id &&
    other.status === 'pending' &&
    (['tool', 'side_effect', 'rule', 'policy', 'schema', 'needs_signature'] as const).every((name) => other[name] === one[name])
  return others.filter(isAlike).slice(0, MOST_TOGETHER)
}
