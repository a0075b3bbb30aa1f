/** The end of the journal as it grows: what is shown, and what waits while somebody reads further up. */

import type { Entry } from '../../api/asks'

/** Is how many events are kept on the page; what falls off is still in the journal. */
export const MOST = 5000

export type Tail = {
  readonly shown: readonly Entry[]
  /** What came while nobody followed. */
  readonly held: readonly Entry[]
  readonly isFollowing: boolean
  /** The place in the journal from which on everything was looked at. */
  readonly from: number
}

export type Change =
  | { readonly is: 'begun'; readonly entries: readonly Entry[]; readonly from: number }
  | { readonly is: 'came'; readonly entries: readonly Entry[] }
  | { readonly is: 'older'; readonly entries: readonly Entry[]; readonly from: number }
  | { readonly is: 'followed'; readonly on: boolean }

export const NOTHING: Tail = { shown: [], held: [], isFollowing: true, from: 0 }

export function changed(tail: Tail, change: Change): Tail {
  switch (change.is) {
    case 'begun':
      return { ...NOTHING, shown: change.entries, from: change.from }
    case 'came':
      return came(tail, change.entries)
    case 'older':
      return { ...tail, shown: [...change.entries, ...tail.shown], from: change.from }
    case 'followed':
      if (change.on === tail.isFollowing) return tail
      return change.on ? cut({ ...tail, shown: [...tail.shown, ...tail.held], held: [], isFollowing: true }) : { ...tail, isFollowing: false }
  }
}

function came(tail: Tail, entries: readonly Entry[]): Tail {
  const last = placeOf(tail.held.at(-1)) ?? placeOf(tail.shown.at(-1)) ?? -1
  const fresh = entries.filter((entry) => (placeOf(entry) ?? -1) > last) // a stream that was cut off may tell one again
  if (fresh.length === 0) return tail
  if (tail.isFollowing) return cut({ ...tail, shown: [...tail.shown, ...fresh] })
  return { ...tail, held: [...tail.held, ...fresh].slice(-MOST) }
}

function cut(tail: Tail): Tail {
  if (tail.shown.length <= MOST) return tail
  const shown = tail.shown.slice(-MOST)
  return { ...tail, shown, from: placeOf(shown[0]) ?? tail.from }
}

export const placeOf = (entry: Entry | undefined) => entry?.index ?? undefined
