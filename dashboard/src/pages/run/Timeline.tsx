import { useVirtualizer } from '@tanstack/react-virtual'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { ZoomIn, ZoomOut } from 'lucide-react'
import { useEffect, useMemo, useRef, useState } from 'react'
import type { RunEvent } from '../../api/runs'
import { Button } from '../../parts/Button'
import { Chips } from '../../parts/Chips'
import { useNarrow } from '../../parts/narrow'
import { usePrinting } from '../../parts/printing'
import { useNow } from '../../parts/time'
import { useHotkeys } from '../../shell/hotkeys'
import { Axis, Legend, Overlay } from './Axis'
import { drawn, folded, holding, linesOf, nameOf, type Drawn, type Line } from './lines'
import { LineShown } from './LineShown'
import { Scale, type Closer } from './scale'

const HEIGHT = 34
const HEIGHT_WHEN_NARROW = 54
/** Is how many lines go to paper; more of them nobody reads there. */
const MOST_PRINTED = 2000
export const COLUMNS = 'md:grid md:grid-cols-[minmax(17rem,30rem)_minmax(0,1fr)]'

type Props = { events: readonly RunEvent[]; isOver: boolean; more: (() => void) | undefined }

/** Draws a run: what happened on the left, line by line; when it happened on the right, on one line of time. */
export function Timeline({ events, isOver, more }: Props) {
  const { line: sought, idle, lines: wish, from, to } = useSearch({ from: '/runs/$runId' })
  const all = useMemo(() => linesOf(events), [events])
  const lines = useMemo(() => (wish === 'all' ? all : folded(all)), [all, wish])
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set())
  const shown = useMemo(() => drawn(lines, opened), [lines, opened])
  const until = useUntil(all, isOver)
  const closer = useMemo(() => (from !== undefined && to !== undefined ? { from, to } : null), [from, to])
  const scale = useMemo(() => new Scale([...momentsOf(events), until], idle !== 'shown', closer), [events, until, idle, closer])
  const look = useLooking()
  const pane = useRef<HTMLDivElement>(null)
  const isPrinting = usePrinting()
  const height = useNarrow() ? HEIGHT_WHEN_NARROW : HEIGHT
  const rows = useVirtualizer({ count: shown.length, getScrollElement: () => pane.current, estimateSize: () => height, overscan: isPrinting ? MOST_PRINTED : 12 })
  useEffect(() => rows.measure(), [height, rows])
  useSought(lines, shown, sought, setOpened, (index) => rows.scrollToIndex(index, { align: 'center' }))
  const toggle = (name: string) => setOpened((before) => (before.has(name) ? new Set([...before].filter((one) => one !== name)) : new Set([...before, name])))
  const place = { scale, until }
  return (
    <div className="flex h-full min-h-0 flex-col max-md:h-[75vh]">
      <Tools scale={scale} onLook={look} />
      <div ref={pane} tabIndex={0} role="region" aria-label="Timeline" className="min-h-0 flex-1 overflow-auto">
        <Axis events={events} scale={scale} onCloser={look} />
        <div className="relative" style={{ height: rows.getTotalSize() }}>
          <Overlay events={events} scale={scale} />
          <ol>
            {rows.getVirtualItems().map((item) => {
              const line = shown[item.index]!
              return (
                <li key={nameOf(line)} aria-setsize={shown.length} aria-posinset={item.index + 1} className={`absolute inset-x-0 border-b border-line/60 ${line.seq === sought && line.is !== 'folded' ? 'bg-warn-ground' : 'hover:bg-raised'}`} style={{ top: item.start, height }}>
                  <LineShown line={line} place={place} isOpen={opened.has(nameOf(line))} onToggle={() => toggle(nameOf(line))} />
                </li>
              )
            })}
          </ol>
        </div>
        {more && <Button className="m-3" onClick={more}>Read on: there are more events</Button>}
      </div>
    </div>
  )
}

/** Writes a moment to the microsecond: addresses need no more. */
const exact = (moment: number) => Math.round(moment * 1000) / 1000

/** Gives a way to look at a stretch of time, or at all of it; which one is in the address. */
function useLooking(): (stretch: Closer | null) => void {
  const go = useNavigate({ from: '/runs/$runId' })
  return (stretch) => void go({ search: ({ from: _from, to: _to, ...rest }) => ({ ...rest, ...(stretch && { from: exact(stretch.from), to: exact(stretch.to) }) }), replace: true })
}

/** Looks closer at the middle of what is drawn, or from further away: what a pointer does by drawing over the axis. */
function Looking({ scale, onLook }: { scale: Scale; onLook: (stretch: Closer | null) => void }) {
  const [nearer, farther, all] = [() => onLook(scale.around(0.5)), () => onLook(scale.around(2)), () => onLook(null)]
  useHotkeys({ '+': nearer, '-': farther, 0: all })
  return (
    <div role="group" aria-label="Time" className="print:hidden flex items-center gap-1">
      <button type="button" aria-label="Look from further away" title="Look from further away (-)" disabled={!scale.isCloser} onClick={farther} className={LENS}><ZoomOut size={15} aria-hidden /></button>
      <button type="button" aria-label="Look closer" title="Look closer (+)" onClick={nearer} className={LENS}><ZoomIn size={15} aria-hidden /></button>
      {scale.isCloser && <button type="button" onClick={all} className="rounded px-1.5 text-xs text-accent underline">whole run</button>}
    </div>
  )
}

const LENS = 'rounded border border-line p-1 hover:bg-raised disabled:text-muted disabled:hover:bg-paper'

function Tools({ scale, onLook }: { scale: Scale; onLook: (stretch: Closer | null) => void }) {
  const search = useSearch({ from: '/runs/$runId' })
  const go = useNavigate({ from: '/runs/$runId' })
  const chosen = [search.idle !== 'shown' && 'idle time folded', search.lines !== 'all' && 'equal calls folded'].filter((one) => one !== false)
  const toggle = (name: string) => {
    const { idle, lines, ...rest } = search
    const isIdle = name === 'idle time folded'
    void go({
      search: { ...rest, ...((isIdle ? idle !== 'shown' : idle === 'shown') && { idle: 'shown' as const }), ...((isIdle ? lines === 'all' : lines !== 'all') && { lines: 'all' as const }) },
      replace: true,
    })
  }
  return (
    <div className="flex flex-wrap items-center gap-x-6 gap-y-1 border-b border-line px-4 py-1.5">
      <Chips label="How it is drawn" of={['idle time folded', 'equal calls folded']} chosen={chosen} onChoose={toggle} />
      <Looking scale={scale} onLook={onLook} />
      <Legend />
    </div>
  )
}

function momentsOf(events: readonly RunEvent[]): number[] {
  return events.map((event) => Date.parse(event.at)).filter((moment) => !Number.isNaN(moment))
}

/** Says until when what is open lasts: until now as long as the run goes on, else until its last event. */
function useUntil(lines: readonly Line[], isOver: boolean): number {
  const now = useNow()
  const last = useMemo(() => lines.reduce((latest, line) => Math.max(latest, ...momentsOf(line.is === 'effect' ? line.events : [line.event])), 0), [lines])
  const isOpen = useMemo(() => lines.some((line) => line.is === 'effect' && line.stretches.at(-1)?.to === null), [lines])
  return !isOver && isOpen ? Math.max(now, last) : last
}

type Open = (change: (before: ReadonlySet<string>) => ReadonlySet<string>) => void

/** Brings the line into sight that an address names, once. */
function useSought(lines: Parameters<typeof holding>[0], shown: readonly Drawn[], sought: number | undefined, open: Open, scrollTo: (index: number) => void): void {
  const found = useRef<number | undefined>(undefined)
  useEffect(() => {
    if (sought === undefined || found.current === sought) return
    const place = holding(lines, sought)
    if (!place) return
    const index = shown.findIndex((line) => nameOf(line) === nameOf(place.line))
    if (index >= 0) {
      found.current = sought
      scrollTo(index)
    } else if (place.fold) {
      const fold = nameOf(place.fold)
      open((before) => new Set([...before, fold]))
    }
  }, [lines, shown, sought, open, scrollTo])
}
