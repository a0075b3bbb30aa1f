/** How a run stands for whoever resumes it: what is done, what is never done again, what has to be seen to first. */

import type { Approval } from '../../api/asks'
import type { EffectLine, Story } from '../../api/runs'

/** Side effects that are not repeated once they were entered, as the server has it. */
const NOT_REPLAYABLE = new Set(['external_mutation', 'payment', 'notification'])
const ENTERED = new Set(['processing', 'succeeded', 'in_doubt'])

export type Standing = {
  readonly done: readonly EffectLine[]
  readonly blocked: readonly EffectLine[]
  /** Keys of side effects that were told by hand. */
  readonly told: readonly string[]
  readonly inDoubt: readonly EffectLine[]
  readonly pending: readonly Approval[]
  readonly delegations: readonly string[]
}

export function standingOf(story: Story, approvals: readonly Approval[]): Standing {
  const blocked = story.effects.filter((line) => NOT_REPLAYABLE.has(line.side_effect) && ENTERED.has(line.status))
  const known = new Set(blocked.map((line) => line.key))
  return {
    done: story.effects.filter((line) => line.status === 'succeeded'),
    blocked,
    told: story.blocked_side_effect_keys.filter((key) => !known.has(key)),
    inDoubt: story.in_doubt,
    pending: approvals.filter((approval) => approval.status === 'pending'),
    delegations: story.open_delegations,
  }
}

/** Says what to do next: first what would stop the agent, then what it saved as its next step. */
export function nextAction(standing: Standing, suggested: string | null | undefined, step: string | null): string {
  if (standing.inDoubt.length > 0) return `Find out what became of ${named(standing.inDoubt)}, and settle it: the agent is stopped there otherwise.`
  if (standing.pending.length > 0) return `Decide ${standing.pending.length === 1 ? 'the open approval' : `the ${standing.pending.length} open approvals`}: the agent waits there again otherwise.`
  if (suggested) return suggested
  return step ? `Go on after the step ${step}.` : 'Go on: what was done is answered from the record.'
}

function named(lines: readonly EffectLine[]): string {
  return lines.length === 1 ? lines[0]!.tool : `${lines.length} calls`
}
