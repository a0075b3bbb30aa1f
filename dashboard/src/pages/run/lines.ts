/** A run's events as lines to read: what belongs to one effect is one line, and equal neighbours are folded into one. */

import type { RunEvent } from '../../api/runs'

export type Kind = 'waiting' | 'executing' | 'in_doubt' | 'ready'
/** Is a stretch of time in milliseconds; an open one lasts until now. */
export type Stretch = { readonly kind: Kind; readonly from: number; readonly to: number | null }

export type EffectLine = {
  readonly is: 'effect'
  readonly seq: number
  readonly effectId: string
  readonly tool: string
  readonly status: string
  readonly stretches: readonly Stretch[]
  /** It was done in another run, and only its answer is here. */
  readonly isReplayed: boolean
  readonly events: readonly RunEvent[]
}
export type EventLine = { readonly is: 'event'; readonly seq: number; readonly event: RunEvent }
export type Line = EffectLine | EventLine
/** Is a number of neighbours that came to the same. */
export type Folded = { readonly is: 'folded'; readonly seq: number; readonly tool: string; readonly status: string; readonly lines: readonly EffectLine[] }

/** Is how many equal neighbours are worth folding. */
export const MANY = 4

const STARTS: Readonly<Record<string, Kind>> = {
  approval_requested: 'waiting',
  approval_edited: 'waiting',
  approval_escalated: 'waiting',
  approval_revoked: 'waiting',
  approval_received: 'ready',
  tool_call_released: 'ready',
  tool_call_started: 'executing',
  tool_call_in_doubt: 'in_doubt',
}
/** Events that change nothing about how an effect spends its time. */
const ASIDE = new Set(['approval_voted', 'approval_viewed', 'policy_checked', 'tool_call_joined', 'tool_call_late'])

/** Says how an effect spent its time, from its events in their order. */
export function stretchesOf(events: readonly RunEvent[]): Stretch[] {
  const found: Stretch[] = []
  let open: { kind: Kind; from: number } | null = null
  for (const event of events) {
    const at = Date.parse(event.at)
    if (ASIDE.has(event.type) || Number.isNaN(at)) continue // what cannot be believed has no time
    if (open) found.push({ ...open, to: Math.max(at, open.from) })
    const kind = STARTS[event.type]
    open = kind ? { kind, from: at } : null
  }
  if (open) found.push({ ...open, to: null })
  return found
}

/** Gives the lines of a run, each where its first event stands. */
export function linesOf(events: readonly RunEvent[]): Line[] {
  const of = new Map<string, RunEvent[]>()
  const order: (RunEvent | string)[] = []
  for (const event of events) {
    if (event.effect_id === null) {
      order.push(event)
      continue
    }
    const known = of.get(event.effect_id)
    if (known) known.push(event)
    else {
      of.set(event.effect_id, [event])
      order.push(event.effect_id)
    }
  }
  return order.map((one) => (typeof one === 'string' ? effectLine(one, of.get(one)!) : { is: 'event', seq: one.seq, event: one }))
}

function effectLine(effectId: string, events: readonly RunEvent[]): EffectLine {
  return {
    is: 'effect',
    seq: events[0]!.seq,
    effectId,
    tool: events.find((event) => event.tool)?.tool ?? '',
    status: events.findLast((event) => event.effect_status)?.effect_status ?? '',
    stretches: stretchesOf(events),
    isReplayed: events.some((event) => event.type === 'tool_call_adopted'),
    events,
  }
}

/** Folds neighbours of the same tool that came to the same, where there are many of them. */
export function folded(lines: readonly Line[]): (Line | Folded)[] {
  const found: (Line | Folded)[] = []
  for (let from = 0; from < lines.length; ) {
    let to = from + 1
    while (to < lines.length && isSame(lines[from]!, lines[to]!)) to += 1
    const [first] = lines.slice(from, from + 1)
    if (to - from >= MANY && first!.is === 'effect') {
      found.push({ is: 'folded', seq: first!.seq, tool: first!.tool, status: first!.status, lines: lines.slice(from, to) as EffectLine[] })
    } else found.push(...lines.slice(from, to))
    from = to
  }
  return found
}

/** Only what has ended well is folded: what waits, failed or is in doubt stays in sight. */
function isSame(one: Line, other: Line): boolean {
  return one.is === 'effect' && other.is === 'effect' && one.tool === other.tool && one.status === 'succeeded' && other.status === 'succeeded' && one.isReplayed === other.isReplayed
}

/** Names the line on which something went wrong last: a call that failed or is in doubt, or else the run's own word. */
export function troubleIn(lines: readonly Line[], runStatus: string): { seq: number; words: string } | null {
  if (!['failed', 'manual_review_required', 'blocked'].includes(runStatus)) return null
  const call = lines.findLast((line) => line.is === 'effect' && ['failed', 'in_doubt', 'requires_approval', 'denied'].includes(line.status))
  const own = lines.findLast((line) => line.is === 'event' && ['run_failed', 'run_flagged', 'run_blocked', 'interruption_detected'].includes(line.event.type))
  const event = call?.is === 'effect' ? call.events.at(-1) : own?.is === 'event' ? own.event : undefined
  const line = call ?? own
  return line && event ? { seq: line.seq, words: saidBy(event) } : null
}

/** Gives what an event says in words, if it does. */
export function saidBy(event: RunEvent): string {
  const said = event.payload
  if (typeof said === 'string') return said
  if (typeof said === 'object' && said !== null && 'message' in said && typeof said.message === 'string') return said.message
  return ''
}

/** Is one line as it is drawn: a line, many folded into one, or an event of a line that was opened. */
export type Drawn = Line | Folded | { readonly is: 'part'; readonly seq: number; readonly event: RunEvent }

/** Names a line of the drawing; a fold and the first line in it stand at the same event. */
export const nameOf = (line: Drawn) => `${line.is}-${line.seq}`

/** Gives what is drawn: opened lines show their events, opened folds show their lines. */
export function drawn(lines: readonly (Line | Folded)[], opened: ReadonlySet<string>): Drawn[] {
  return lines.flatMap((line): Drawn[] => {
    if (line.is === 'event' || !opened.has(nameOf(line))) return [line]
    if (line.is === 'folded') return [line, ...drawn(line.lines, opened)]
    return [line, ...line.events.map((event) => ({ is: 'part', seq: event.seq, event }) as const)]
  })
}

/** Finds the line that holds an event, and the fold that line is in, if it is in one. */
export function holding(lines: readonly (Line | Folded)[], seq: number): { line: Line; fold: Folded | null } | null {
  for (const line of lines) {
    const inside = (line.is === 'folded' ? line.lines : [line]).find((one) => one.seq === seq || (one.is === 'effect' && one.events.some((event) => event.seq === seq)))
    if (inside) return { line: inside, fold: line.is === 'folded' ? line : null }
  }
  return null
}

/** Names the run that an event leads to: one that work was delegated to. */
export function childIn(event: RunEvent): string | null {
  if (!event.type.startsWith('delegation_') || typeof event.payload !== 'object' || event.payload === null) return null
  const { run, runId } = event.payload as { run?: unknown; runId?: unknown }
  const child = run ?? runId
  return typeof child === 'string' ? child : null
}
