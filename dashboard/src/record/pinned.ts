/** What this browser remembers of a journal: the key it trusts, and how far it saw it. Later visits compare. */

import type { Seen } from './verify'

export type Pinned = { readonly vkey: string; readonly since: string; readonly seen: Seen | null }

const place = (origin: string) => `indelible.journal.${origin}`

export function remembered(origin: string): Pinned | null {
  try {
    return JSON.parse(localStorage.getItem(place(origin)) ?? 'null') as Pinned | null
  } catch {
    return null
  }
}

export function remember(origin: string, pinned: Pinned): void {
  try {
    localStorage.setItem(place(origin), JSON.stringify(pinned))
  } catch {
    // a browser that keeps nothing cannot compare; the page says that no earlier visit is known
  }
}
