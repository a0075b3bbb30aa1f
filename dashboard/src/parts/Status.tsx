import { Ban, Check, CircleDashed, CircleHelp, CirclePlay, Clock, Eye, Hourglass, OctagonAlert, Undo2, X, type LucideIcon } from 'lucide-react'

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
  requires_approval: [Hourglass, 'wait'],
  ready: [CircleDashed, 'plain'],
  processing: [CirclePlay, 'plain'],
  succeeded: [Check, 'good'],
  failed: [X, 'bad'],
  denied: [Ban, 'bad'],
  canceled: [Ban, 'plain'],
  in_doubt: [CircleHelp, 'warn'],
  pending: [Hourglass, 'wait'],
  approved: [Check, 'good'],
  consumed: [Check, 'good'],
  expired: [Clock, 'warn'],
  stale: [Undo2, 'warn'],
  active: [CirclePlay, 'plain'],
  blocked: [OctagonAlert, 'warn'],
  completed: [Check, 'good'],
  manual_review_required: [Eye, 'warn'],
  handed_over: [Undo2, 'plain'],
}

export function Status({ is }: { is: string }) {
  const [Icon, tone]: [LucideIcon, Tone] = Object.hasOwn(LOOKS, is) ? LOOKS[is]! : [CircleDashed, 'plain']
  return (
    <span className={`inline-flex items-center gap-1 rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}>
      <Icon size={13} aria-hidden /> {is.replaceAll('_', ' ')}
    </span>
  )
}
