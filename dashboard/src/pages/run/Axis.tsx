import { Diamond } from 'lucide-react'
import { useMemo } from 'react'
import type { RunEvent } from '../../api/runs'
import { length, written } from '../../parts/time'
import { useSettings } from '../../shell/settings'
import type { Scale } from './scale'
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
export function Axis({ events, scale, until }: { events: readonly RunEvent[]; scale: Scale; until: number }) {
  const { zone } = useSettings()
  const first = events.find((event) => event.at !== '')
  const seals = useMemo(() => events.filter(isSeal).slice(-MOST_SEALS), [events])
  if (!first) return null
  const from = Date.parse(first.at)
  return (
    <div className={`sticky top-0 z-2 border-b border-line bg-raised text-xs text-muted ${COLUMNS}`}>
      <p className="px-4 py-1.5">{events.length.toLocaleString('en')} events</p>
      <div className="relative mx-3 flex items-center justify-between gap-4 py-1.5 whitespace-nowrap">
        <span>{written(first.at, zone)}</span>
        <span>{length(until - from)} later</span>
        {seals.map((seal) => (
          <Diamond key={seal.seq} size={11} aria-hidden className="absolute bottom-0 -translate-x-1/2 fill-accent text-accent" style={{ left: percent(scale.place(Date.parse(seal.at))) }} />
        ))}
      </div>
    </div>
  )
}

/** Draws through all lines where the run was saved, and where idle time was folded away. */
export function Overlay({ events, scale }: { events: readonly RunEvent[]; scale: Scale }) {
  const seals = useMemo(() => events.filter(isSeal).slice(-MOST_SEALS), [events])
  return (
    <div aria-hidden className={`pointer-events-none absolute inset-0 z-1 ${COLUMNS}`}>
      <div className="max-md:hidden" />
      <div className="relative mx-3 h-full">
        {scale.folds.map((fold) => (
          <div key={fold.from} className="fold absolute inset-y-0" style={{ left: percent(fold.left), width: percent(fold.right - fold.left) }}>
            {scale.folds.length <= MOST_SAID && <span className="sticky top-8 mx-auto block w-max max-w-full truncate rounded-sm bg-paper px-0.5 text-center text-[10px] text-muted">{roughly(fold.to - fold.from)}</span>}
          </div>
        ))}
        {seals.map((seal) => <div key={seal.seq} className="absolute inset-y-0 border-l-2 border-dotted border-accent" style={{ left: percent(scale.place(Date.parse(seal.at))) }} />)}
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
