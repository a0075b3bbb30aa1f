import { Ban, Check, CircleDashed, CircleHelp, CirclePause, CirclePlay, Clock, Hourglass, OctagonAlert, Undo2, X, type LucideIcon } from 'lucide-react'

type Tone = 'good' | 'bad' | 'warn' | 'wait' | 'plain'
const TONES: Record<Tone, string> = {
  good: 'bg-good-ground text-good',
  bad: 'bg-bad-ground text-bad',
  warn: 'bg-warn-ground text-warn',
  wait: 'bg-wait-ground text-wait',
  plain: 'bg-sunken text-ink',
}

/** How each status of effects, approvals and runs looks: never by colour alone. */
const LOOKS: Record<string, [LucideIcon, Tone]> = {
  ready: [CircleDashed, 'plain'],
  awaiting_approval: [Hourglass, 'wait'],
  executing: [CirclePlay, 'plain'],
  succeeded: [Check, 'good'],
  failed: [X, 'bad'],
  in_doubt: [CircleHelp, 'warn'],
  denied: [Ban, 'bad'],
  canceled: [Ban, 'plain'],
  pending: [Hourglass, 'wait'],
  approved: [Check, 'good'],
  consumed: [Check, 'good'],
  expired: [Clock, 'warn'],
  revoked: [Undo2, 'warn'],
  superseded: [Undo2, 'plain'],
  running: [CirclePlay, 'plain'],
  active: [CirclePlay, 'plain'],
  paused: [CirclePause, 'wait'],
  blocked: [OctagonAlert, 'warn'],
  completed: [Check, 'good'],
}

export function Status({ is }: { is: string }) {
  const [Icon, tone] = LOOKS[is] ?? [CircleDashed, 'plain']
  return (
    <span className={`inline-flex items-center gap-1 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}>
      <Icon size={13} aria-hidden /> {is.replaceAll('_', ' ')}
    </span>
  )
}
