/** What to say around a decision: how far it is, whose it is not, and what changed while somebody read. */

import type { Approval } from '../../api/asks'

/** Says how many of several have approved: `1 of 2 approved`; of one person there is nothing to count. */
export function gathered({ needs, lacking }: Pick<Approval, 'needs' | 'lacking'>): string | null {
  const all = needs.reduce((sum, need) => sum + need.count, 0)
  return all > 1 ? `${all - lacking} of ${all} approved` : null
}

/** Says why it is not for this person to decide, as far as one can see here; the server decides it. */
export function whyNotMine({ votes, requester, principal }: Pick<Approval, 'votes' | 'requester' | 'principal'>, name: string, may: boolean): string | null {
  const mine = votes.find((vote) => vote.by === name && !vote.on_behalf_of)
  if (mine) return `You have ${mine.is_approval ? 'approved' : 'denied'} this. Somebody else has to decide as well.`
  if (requester.id === name || principal === name) return 'You asked for this yourself, so somebody else has to decide.'
  if (!may) return 'To decide takes the scope approver, which you do not have.'
  return null
}

/** Says what somebody else did to a question between when it was read and when it was answered. */
export function whatChanged(read: Approval, now: Approval): { title: string; detail: string } {
  if (now.digest !== read.digest) {
    return {
      title: `The arguments were changed${now.edited_by ? ` by ${now.edited_by}` : ''} while you read them`,
      detail: 'Your answer was not counted. What you see now is the new request: read it before you decide.',
    }
  }
  if (now.status !== 'pending') {
    const by = now.votes.at(-1)?.by
    return { title: `It was already ${now.status}${by ? ` by ${by}` : ''}`, detail: 'Your answer was not counted, and nothing ran because of it.' }
  }
  return { title: 'Somebody else answered meanwhile', detail: 'Your answer was not counted. What you see now is how it stands: decide again.' }
}

/** Return the question that `j` or `k` opens; one that has left the list still has its place there. */
export function neighbour(ids: readonly string[], shown: string | undefined, place: number, by: 1 | -1): string | undefined {
  const at = shown === undefined ? -1 : ids.indexOf(shown)
  const from = at >= 0 ? at : by > 0 ? place - 1 : place
  return ids[Math.min(ids.length - 1, Math.max(0, from + by))]
}
