import { Link } from '@tanstack/react-router'
import { ChevronDown, ChevronRight, Diamond } from 'lucide-react'
import { useMemo, type ReactNode } from 'react'
import type { RunEvent } from '../../api/runs'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { length } from '../../parts/time'
import { plainly } from '../../parts/visible'
import { childIn, saidBy, type Drawn, type EffectLine, type Stretch } from './lines'
import { joined, type Scale } from './scale'
import { COLUMNS } from './Timeline'

type Place = { readonly scale: Scale; readonly until: number }

/** Shows one line of a run: what it is, and when it was. */
export function LineShown({ line, place, isOpen, onToggle }: { line: Drawn; place: Place; isOpen: boolean; onToggle: () => void }) {
  switch (line.is) {
    case 'folded':
      return (
        <Row seq={line.seq} track={line.lines[0]!.isReplayed ? <Bars of={line.lines.slice(0, MOST_MARKS)} place={place} /> : <Joined of={line.lines} place={place} />}>
          <Opener isOpen={isOpen} onToggle={onToggle} name={`${line.lines.length} calls of ${line.tool}`} />
          <span className="truncate"><strong>{line.lines.length} ×</strong> <Text>{line.tool}</Text></span>
          <Aside><Status is={line.status} /></Aside>
        </Row>
      )
    case 'effect':
      return (
        <Row seq={line.seq} track={<Bars of={[line]} place={place} />}>
          <Opener isOpen={isOpen} onToggle={onToggle} name={`the events of ${line.tool}`} />
          <Link to="/effects/$effectId" params={{ effectId: line.effectId }} className="truncate"><Text>{line.tool}</Text></Link>
          <Aside>{line.isReplayed && <span className="text-xs text-muted">replayed</span>}<Times of={line.stretches} until={place.until} /><Status is={line.status} /></Aside>
        </Row>
      )
    case 'event':
    case 'part':
      return <EventLine event={line.event} isPart={line.is === 'part'} place={place} />
  }
}

function EventLine({ event, isPart, place }: { event: RunEvent; isPart: boolean; place: Place }) {
  const [said, child] = [saidBy(event), childIn(event)]
  return (
    <Row seq={event.seq} track={<Mark at={event.at} place={place} isSeal={event.type === 'checkpoint_sealed'} />}>
      <span className={`shrink-0 ${isPart ? 'w-9' : 'w-5'}`} />
      {event.type === 'checkpoint_sealed' && <Diamond size={12} aria-hidden className="shrink-0 fill-accent text-accent" />}
      <span className={`shrink-0 ${event.status === 'skipped' || event.status === 'unread' ? 'line-through' : ''}`}><Text>{event.type.replaceAll('_', ' ')}</Text></span>
      {child && <Link to="/runs/$runId" params={{ runId: child }} className="truncate"><Text>{child}</Text></Link>}
      {event.step && <span className="truncate text-muted"><Text>{event.step}</Text></span>}
      {said && <span className="truncate text-muted" title={plainly(said)}><Text>{said}</Text></span>}
      <Aside>{event.status !== 'recorded' && <span className="text-xs text-muted">{event.status}</span>}<span className="truncate text-xs text-muted"><Text>{event.actor}</Text></span></Aside>
    </Row>
  )
}

function Row({ seq, track, children }: { seq: number; track: ReactNode; children: ReactNode }) {
  return (
    <div className={`h-full ${COLUMNS}`}>
      <div className="flex min-w-0 items-center gap-1.5 px-4 text-sm max-md:h-[34px] md:h-full md:border-r md:border-line">
        <Link from="/runs/$runId" to="." search={(before) => ({ ...before, line: seq })} replace className="w-9 shrink-0 text-right text-xs text-muted no-underline hover:underline" aria-label={`Event ${seq + 1}: link to this line`}>{seq + 1}</Link>
        {children}
      </div>
      <div aria-hidden className="overflow-x-clip px-3 max-md:h-4 md:h-full"><div className="relative h-full">{track}</div></div>
    </div>
  )
}

function Aside({ children }: { children: ReactNode }) {
  return <span className="ml-auto flex min-w-0 shrink items-center gap-2 pl-2 whitespace-nowrap">{children}</span>
}

function Opener({ isOpen, onToggle, name }: { isOpen: boolean; onToggle: () => void; name: string }) {
  const Icon = isOpen ? ChevronDown : ChevronRight
  return (
    <button type="button" aria-expanded={isOpen} aria-label={plainly(`Show ${name}`)} onClick={onToggle} className="shrink-0 rounded p-0.5 text-muted hover:bg-sunken">
      <Icon size={14} aria-hidden />
    </button>
  )
}

/** Says in words how long it took: what is drawn beside it is not for everybody. */
function Times({ of, until }: { of: readonly Stretch[]; until: number }) {
  const sum = (kind: Stretch['kind']) => of.filter((one) => one.kind === kind).reduce((total, one) => total + (one.to ?? until) - one.from, 0)
  const [waited, ran] = [sum('waiting'), sum('executing')]
  return (
    <span className="text-xs text-muted max-sm:hidden">
      {waited > 0 && <span className="text-wait">waited {length(waited)} </span>}
      {ran > 0 && length(ran)}
    </span>
  )
}

/** Is how many single marks one line has room for. */
const MOST_MARKS = 300
const BAR = 'absolute top-1/2 h-3 min-w-[4px] -translate-y-1/2'
const percent = (place: number) => `${(100 * place).toFixed(3)}%`

/** Keeps what is at the very end in sight, and leaves out of it what comes later. */
const inSight = (place: number, last: number) => (place > 1 ? 1.1 : Math.min(place, last))

function Bars({ of, place: { scale, until } }: { of: readonly EffectLine[]; place: Place }) {
  return of.flatMap((line) => {
    if (line.isReplayed) {
      const at = scale.place(Date.parse(line.events[0]!.at))
      return [<span key={line.seq} className={`bar bar-replayed ${BAR} w-3`} style={{ left: percent(inSight(at, 0.985)) }} />]
    }
    return line.stretches.map((one, index) => {
      const [from, to] = [scale.place(one.from), scale.place(one.to ?? until)]
      const isFailure = one.kind === 'executing' && line.status === 'failed' && index === line.stretches.findLastIndex((each) => each.kind === 'executing')
      const look = isFailure ? 'bar-failed' : one.kind === 'executing' ? '' : `bar-${one.kind}`
      return <span key={`${line.seq}-${index}`} className={`bar ${look} ${BAR}`} style={{ left: percent(inSight(from, 0.995)), width: percent(to - from) }} />
    })
  })
}

/** Draws many calls of one tool that all ended well, by when they were at work. */
function Joined({ of, place: { scale, until } }: { of: readonly EffectLine[]; place: Place }) {
  const bars = useMemo(() => joined(of.flatMap((line) => line.stretches.filter((one) => one.kind === 'executing').map((one) => [scale.place(one.from), scale.place(one.to ?? until)] as const))), [of, scale, until])
  return bars.map(([from, to]) => <span key={from} className={`bar ${BAR}`} style={{ left: percent(inSight(from, 0.995)), width: percent(to - from) }} />)
}

function Mark({ at, place: { scale }, isSeal }: { at: string; place: Place; isSeal: boolean }) {
  if (at === '') return null
  return <span className={`absolute top-1/2 size-1.5 -translate-x-1/2 -translate-y-1/2 ${isSeal ? 'rotate-45 bg-accent' : 'rounded-full bg-muted'}`} style={{ left: percent(scale.place(Date.parse(at))) }} />
}
