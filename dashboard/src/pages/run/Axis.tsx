import { Diamond } from 'lucide-react'
import { useMemo, useRef, useState, type PointerEvent } from 'react'
import type { RunEvent } from '../../api/runs'
import { length, many, written } from '../../parts/time'
import { useSettings } from '../../shell/settings'
import type { Closer, Scale } from './scale'
import { COLUMNS } from './Timeline'

/** Is how many seals are drawn; a run with more has them in its list of checkpoints. */
const MOST_SEALS = 200

/** Is up to how many folds have room to say how long they are. */
const MOST_SAID = 6

const percent = (place: number) => `${(100 * place).toFixed(3)}%`
/** Says how long it was in one unit, for there is little room. */
const roughly = (milliseconds: number) => length(milliseconds).split(' ').slice(0, 2).join(' ')
const isSeal = (event: RunEvent) => event.type === 'checkpoint_sealed' && event.at !== ''

/** Says from when to when the time goes, and where the checkpoints stand. */
export function Axis({ events, scale, onCloser }: { events: readonly RunEvent[]; scale: Scale; onCloser: (stretch: Closer) => void }) {
  const { zone } = useSettings()
  const { brush, watching } = useBrush(scale, onCloser)
  const first = events.find((event) => event.at !== '')
  const seals = useMemo(() => events.filter(isSeal).slice(-MOST_SEALS), [events])
  if (!first) return null
  const [from, to] = [scale.moment(0), scale.moment(1)]
  return (
    <div className={`sticky top-0 z-2 border-b border-line bg-raised text-xs text-muted ${COLUMNS}`}>
      <p className="px-4 py-1.5">{many(events.length, 'event')}</p>
      <div {...watching} title="Drag to look closer" className="relative mx-3 flex cursor-crosshair touch-pan-y items-center justify-between gap-4 py-1.5 whitespace-nowrap select-none">
        {brush && <div className="absolute inset-y-0 border-x border-accent bg-accent/20" style={{ left: percent(brush[0]), width: percent(brush[1] - brush[0]) }} />}
        <span>{written(new Date(from).toISOString(), zone)}</span>
        <span>{length(to - from)} later</span>
        {seals.filter((seal) => isInSight(scale.place(Date.parse(seal.at)))).map((seal) => (
          <Diamond key={seal.seq} size={11} aria-hidden className="absolute bottom-0 -translate-x-1/2 fill-accent text-accent" style={{ left: percent(scale.place(Date.parse(seal.at))) }} />
        ))}
      </div>
    </div>
  )
}

const isInSight = (place: number) => place >= 0 && place <= 1
/** Is how much of the width has to be drawn over: less is a press. */
const LEAST = 0.01

/** Lets a pointer be drawn over a stretch of time, to look at that alone. */
function useBrush(scale: Scale, onCloser: (stretch: Closer) => void) {
  const [brush, setBrush] = useState<readonly [number, number] | null>(null)
  const began = useRef<number | null>(null)
  const placeOf = ({ currentTarget, clientX }: PointerEvent<HTMLElement>) => {
    const { left, width } = currentTarget.getBoundingClientRect()
    return Math.min(1, Math.max(0, (clientX - left) / width))
  }
  const between = (event: PointerEvent<HTMLElement>) => [began.current!, placeOf(event)].sort((one, other) => one - other) as [number, number]
  const watching = {
    onPointerDown: (event: PointerEvent<HTMLElement>) => {
      event.currentTarget.setPointerCapture(event.pointerId)
      began.current = placeOf(event)
    },
    onPointerMove: (event: PointerEvent<HTMLElement>) => {
      if (began.current !== null) setBrush(between(event))
    },
    onPointerUp: (event: PointerEvent<HTMLElement>) => {
      if (began.current === null) return
      const [from, to] = between(event)
      if (to - from >= LEAST) onCloser({ from: scale.moment(from), to: scale.moment(to) })
      began.current = null
      setBrush(null)
    },
    onPointerCancel: () => {
      began.current = null
      setBrush(null)
    },
  }
  return { brush, watching }
}

/** Draws through all lines where the run was saved, and where idle time was folded away. */
export function Overlay({ events, scale }: { events: readonly RunEvent[]; scale: Scale }) {
  const seals = useMemo(() => events.filter(isSeal).slice(-MOST_SEALS), [events])
  return (
    <div aria-hidden className={`pointer-events-none absolute inset-0 z-1 max-md:hidden ${COLUMNS}`}>
      <div />
      <div className="h-full overflow-x-clip px-3">
        <div className="relative h-full">
          {scale.folds.map((fold) => (
            <div key={fold.from} className="fold absolute inset-y-0" style={{ left: percent(fold.left), width: percent(fold.right - fold.left) }}>
              {scale.folds.length <= MOST_SAID && <span className="sticky top-8 mx-auto block w-max max-w-full truncate rounded-sm bg-paper px-0.5 text-center text-[10px] text-muted">{roughly(fold.to - fold.from)}</span>}
            </div>
          ))}
          {seals.map((seal) => <div key={seal.seq} className="absolute inset-y-0 border-l-2 border-dotted border-accent" style={{ left: percent(scale.place(Date.parse(seal.at))) }} />)}
        </div>
      </div>
    </div>
  )
}

const MEANINGS: readonly (readonly [string, string])[] = [
  ['bar bar-waiting', 'waits for a person'],
  ['bar bar-ready', 'may begin'],
  ['bar', 'executes'],
  ['bar bar-failed', 'failed'],
  ['bar bar-in_doubt', 'in doubt'],
  ['bar bar-replayed', 'replayed'],
  ['fold', 'idle, folded'],
]

export function Legend() {
  return (
    <ul aria-label="What is drawn how" className="flex flex-wrap items-center gap-x-4 gap-y-0.5 text-xs text-muted">
      {MEANINGS.map(([look, words]) => <li key={words} className="flex items-center gap-1.5"><span className={`inline-block h-2.5 w-5 ${look}`} aria-hidden /> {words}</li>)}
      <li className="flex items-center gap-1"><Diamond size={10} aria-hidden className="fill-accent text-accent" /> checkpoint</li>
    </ul>
  )
}
