import { useVirtualizer } from '@tanstack/react-virtual'
import { createContext, memo, useContext, useEffect, useLayoutEffect, useRef, type ReactNode, type RefObject } from 'react'
import { useHotkeys } from '../shell/hotkeys'
import { useNarrow } from './narrow'

const HEIGHT = 40
const HEIGHT_WHEN_NARROW = 68
/** Where there is little room, a line shows its four main columns two by two. */
const TWO_BY_TWO = '11.5rem minmax(0, 1fr)'
/** Is how many lines before the end more are asked for. */
const AHEAD = 40

export type Column<Thing> = {
  readonly name: string
  readonly cell: (thing: Thing) => ReactNode
  /** How wide it is, as in a grid's columns. */
  readonly width: string
  /** Where there is little room, it is left out. */
  readonly isMinor?: boolean
}

type Props<Thing> = {
  label: string
  things: readonly Thing[]
  columns: readonly Column<Thing>[]
  /** Asks for more, where there is more. */
  more: (() => void) | undefined
}

/** Shows any number of things as lines of a table; only those on screen are there. `j` and `k` walk through them. */
export function Table<Thing extends { readonly id: string }>({ label, things, columns, more }: Props<Thing>) {
  const pane = useRef<HTMLDivElement>(null)
  const isNarrow = useNarrow()
  const height = isNarrow ? HEIGHT_WHEN_NARROW : HEIGHT
  const lines = useVirtualizer({
    count: things.length,
    getScrollElement: () => pane.current,
    estimateSize: () => height,
    getItemKey: (index) => things[index]!.id,
    overscan: 10,
    isScrollingResetDelay: 300,
  })
  useEffect(() => lines.measure(), [height, lines])
  const items = lines.getVirtualItems()
  const last = items.at(-1)?.index ?? 0
  useEffect(() => {
    if (more && last >= things.length - AHEAD) more()
  }, [last, things.length, more])
  useSamePlace(pane, things, height)
  useWalking(pane, things, (index) => lines.scrollToIndex(index, { align: 'auto' }))
  const grid = isNarrow ? TWO_BY_TWO : columns.map((column) => column.width).join(' ')
  return (
    <div ref={pane} className="min-h-0 flex-1 overflow-auto" tabIndex={0} role="region" aria-label={label}>
      <div role="table" aria-label={label} aria-rowcount={more ? -1 : things.length + 1} className="md:min-w-3xl">
        <div role="rowgroup" className="sticky top-0 z-2 border-b border-line bg-raised text-sm text-muted max-md:sr-only">
          <div role="row" aria-rowindex={1} className="grid gap-3 px-3" style={{ gridTemplateColumns: grid }}>
            {columns.map((column) => <span key={column.name} role="columnheader" className="truncate py-1.5 font-medium">{column.name}</span>)}
          </div>
        </div>
        <div role="rowgroup" className="relative" style={{ height: lines.getTotalSize() }}>
          <Resting value={!lines.isScrolling}>
            {items.map((item) => <Line key={item.key} thing={things[item.index]!} columns={columns as readonly Column<unknown>[]} index={item.index} top={item.start} height={height} grid={grid} />)}
          </Resting>
        </div>
      </div>
    </div>
  )
}

/** Says whether the list stands still: what a line has to ask the server for can wait until then. */
const Resting = createContext(true)
export const useResting = () => useContext(Resting)

type LineProps = { thing: unknown; columns: readonly Column<unknown>[]; index: number; top: number; height: number; grid: string }

/** Is drawn again only when its thing has changed: a list that scrolls moves lines, and changes none. */
const Line = memo(function Line({ thing, columns, index, top, height, grid }: LineProps) {
  return (
    <div
      role="row"
      aria-rowindex={index + 2}
      data-line={index}
      className="absolute inset-x-0 grid content-center items-center gap-x-3 gap-y-1 border-b border-line px-3 text-sm hover:bg-raised focus-within:bg-sunken"
      style={{ top, height, gridTemplateColumns: grid }}
    >
      {columns.map((column) => (
        <span key={column.name} role="cell" className={`min-w-0 truncate ${column.isMinor ? 'max-md:hidden' : ''}`}>
          {column.cell(thing)}
        </span>
      ))}
    </div>
  )
})

/** Is how a link in a line takes the whole line. */
export const WHOLE_LINE = "text-ink no-underline hover:underline after:absolute after:inset-0 after:content-['']"

/** Keeps what is read where it is when lines come in above it. */
function useSamePlace<Thing extends { readonly id: string }>(pane: RefObject<HTMLDivElement | null>, things: readonly Thing[], height: number): void {
  const kept = useRef<{ id: string; index: number } | null>(null)
  useLayoutEffect(() => {
    const element = pane.current
    if (!element) return
    const before = kept.current
    if (before && element.scrollTop > height && things[before.index]?.id !== before.id) {
      const now = things.findIndex((one) => one.id === before.id)
      if (now >= 0) element.scrollTop += (now - before.index) * height
    }
    const note = () => {
      const index = Math.floor(element.scrollTop / height)
      kept.current = things[index] ? { id: things[index].id, index } : null
    }
    note()
    element.addEventListener('scroll', note, { passive: true })
    return () => element.removeEventListener('scroll', note)
  }, [pane, things, height])
}

/** Lets `j` and `k` move from line to line; Enter opens the one that has the focus, as on every link. */
function useWalking<Thing>(pane: RefObject<HTMLDivElement | null>, things: readonly Thing[], scrollTo: (index: number) => void): void {
  const at = useRef(-1)
  const move = (by: number) => {
    const focused = document.activeElement?.closest<HTMLElement>('[data-line]')
    if (focused && pane.current?.contains(focused)) at.current = Number(focused.dataset.line)
    at.current = Math.min(things.length - 1, Math.max(0, at.current + by))
    scrollTo(at.current)
    const focus = () => pane.current?.querySelector<HTMLElement>(`[data-line="${at.current}"] a`)?.focus({ preventScroll: true })
    requestAnimationFrame(() => requestAnimationFrame(focus)) // it is there only after the list has scrolled
  }
  useHotkeys({ j: () => move(1), k: () => move(-1) })
}
