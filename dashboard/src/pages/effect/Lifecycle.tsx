import { CircleDashed } from 'lucide-react'
import type { Effect } from '../../api/asks'
import { Section } from '../../parts/Fact'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'
import { nextOf, type Milestone } from './attempts'

const WORDS: Readonly<Record<string, string>> = {
  approval_requested: 'asked a person',
  approval_voted: 'one voted',
  approval_received: 'approved',
  approval_denied: 'denied',
  approval_expired: 'nobody decided in time',
  approval_edited: 'arguments edited',
  approval_revoked: 'approval taken back',
  approval_escalated: 'asked others',
  approval_stale: 'asked anew',
  tool_call_started: 'entered',
  succeeded: 'succeeded',
  failed: 'failed',
  tool_call_in_doubt: 'in doubt',
  tool_call_released: 'may be tried',
  tool_call_canceled: 'withdrawn',
  tool_call_late: 'late result kept',
  tool_call_adopted: 'taken over',
  tool_call_joined: 'asked for again',
  policy_checked: 'policy asked',
}
const BAD = new Set(['approval_denied', 'approval_expired', 'tool_call_in_doubt'])

/** Shows the way of an effect so far, and what moves it on. */
export function Lifecycle({ of, milestones }: { of: Effect; milestones: readonly Milestone[] }) {
  const next = nextOf(of)
  const shown = milestones.filter((one) => one.type !== 'approval_viewed')
  return (
    <Section level={2} title="Lifecycle">
      <ol className="flex flex-wrap gap-2">
        {shown.map((one) => (
          <li key={one.seq} className={`min-w-28 rounded-md border-l-4 bg-raised px-3 py-1.5 text-sm ${toneOf(one, of)}`}>
            <span className="block font-medium">{WORDS[one.type === 'tool_call_finished' ? one.status ?? one.type : one.type] ?? <Text>{one.type.replaceAll('_', ' ')}</Text>}{one.type === 'tool_call_started' && one.attempt > 1 && `, attempt ${one.attempt}`}</span>
            <span className="block text-xs text-muted">{one.at && <When at={one.at} />}{one.by && <> · <Text>{one.by}</Text></>}</span>
          </li>
        ))}
        {next && (
          <li className="flex min-w-28 items-center gap-2 rounded-md border border-dashed border-muted px-3 py-1.5 text-sm text-muted">
            <CircleDashed size={14} aria-hidden /> next: {next}
          </li>
        )}
      </ol>
    </Section>
  )
}

function toneOf(one: Milestone, of: Effect): string {
  if (BAD.has(one.type) || (one.type === 'tool_call_finished' && one.status === 'failed')) return of.status === 'in_doubt' ? 'border-warn' : 'border-bad'
  return one.type === 'tool_call_finished' ? 'border-good' : 'border-line'
}
