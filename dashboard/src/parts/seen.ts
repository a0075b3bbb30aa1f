/** Which lines have really been on screen: not only where a pane stands, but that the pane is in sight as well. */

import { useCallback, useEffect, useRef } from 'react'

/** Is how much of a line has to be in sight. */
const ENOUGH = 0.75

type Told = ((seen: number, all: number) => void) | undefined
type Kept = { rows: readonly unknown[]; lines: Uint8Array; count: number; from: number }

/** Gives a way to watch lines, known by their `data-index`, and the first that nobody has seen; each counts once. */
export function useSeen(rows: readonly unknown[], onSeen: Told) {
  const kept = useRef<Kept | null>(null)
  if (kept.current?.rows !== rows) kept.current = { rows, lines: new Uint8Array(rows.length), count: 0, from: 0 }
  const told = useRef(onSeen)
  told.current = onSeen
  const watcher = useRef<IntersectionObserver | null>(null)
  const isWatching = onSeen !== undefined
  useEffect(() => told.current?.(kept.current!.count, rows.length), [rows])
  const watch = useCallback(
    (line: Element) => {
      if (!isWatching) return () => undefined
      const eye = (watcher.current ??= new IntersectionObserver((entries) => note(entries, kept.current!, told.current), { threshold: ENOUGH }))
      eye.observe(line)
      return () => eye.unobserve(line)
    },
    [isWatching, rows], // other rows are other lines: those in sight are looked at again
  )
  useEffect(() => () => watcher.current?.disconnect(), [])
  return { watch, firstUnseen: () => unseenIn(kept.current!) }
}

function note(entries: readonly IntersectionObserverEntry[], kept: Kept, told: Told): void {
  const before = kept.count
  for (const entry of entries) {
    const index = Number((entry.target as HTMLElement).dataset.index)
    if (entry.intersectionRatio < ENOUGH || kept.lines[index] !== 0) continue
    kept.lines[index] = 1
    kept.count += 1
  }
  if (kept.count > before) told?.(kept.count, kept.rows.length)
}

function unseenIn(kept: Kept): number {
  while (kept.lines[kept.from] === 1) kept.from += 1
  return kept.from
}
