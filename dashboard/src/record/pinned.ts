/** What this browser remembers of each journal: the key it trusts, and how far it saw it. Later visits compare. */

import type { Seen } from './trust'

export type Pinned = { readonly vkey: string; readonly since: string; readonly seen: Seen | null }

const PREFIX = 'indelible.journal.'
const own = new Map<string, Pinned>() // where the browser keeps nothing, for as long as the page is open

/** Gives what is remembered, by origin. Read before a head is asked for: that head then covers all of it, whatever other tabs see meanwhile. */
export function remembered(): ReadonlyMap<string, Pinned> {
  const found = new Map(own)
  for (const [name, value] of kept()) {
    try {
      if (name.startsWith(PREFIX)) found.set(name.slice(PREFIX.length), JSON.parse(value) as Pinned)
    } catch {
      // somebody else's, or broken: the page says that no earlier visit is known
    }
  }
  return found
}

function kept(): [string, string][] {
  try {
    return Object.entries(localStorage) as [string, string][]
  } catch {
    return []
  }
}

export function remember(origin: string, pinned: Pinned): void {
  own.set(origin, pinned)
  try {
    localStorage.setItem(PREFIX + origin, JSON.stringify(pinned))
  } catch {
    // it is remembered while the page is open
  }
}

/** Remembers that a journal was seen so far, unless another tab saw more of it meanwhile. */
export function rememberSeen(origin: string, pinned: Pinned, seen: Seen): void {
  const now = remembered().get(origin) ?? pinned
  if ((now.seen?.size ?? 0) < seen.size) remember(origin, { ...now, seen })
}
