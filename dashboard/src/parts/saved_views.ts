/** Saved views: addresses with a name, kept in this browser only. An address can be handed on; the name is one's own. */

import { defaultParseSearch } from '@tanstack/react-router'
import { useSyncExternalStore } from 'react'
import { HOME } from '../api/client'

export type View = { readonly name: string; readonly href: string }

/** Is how many there are at most, and how long a name may be. */
export const MOST = 50
export const LONGEST = 80

/** Two servers, or two paths of one, have views of their own. */
const PLACE = `indelible.views ${HOME.pathname}`
const listeners = new Set<() => void>()
let current = read()

function isView(one: unknown): one is View {
  const { name, href } = (one ?? {}) as Partial<View>
  return typeof name === 'string' && name.length > 0 && name.length <= LONGEST && isOurs(href)
}

/** Says whether an address is of a page of ours: what else stands in the storage leads nowhere. */
export function isOurs(href: unknown): href is string {
  return typeof href === 'string' && /^\/(runs|effects|events)(\?|$)/.test(href)
}

function read(): readonly View[] {
  try {
    const kept: unknown = JSON.parse(localStorage.getItem(PLACE) ?? '[]')
    return Array.isArray(kept) ? kept.filter(isView).slice(0, MOST) : []
  } catch {
    return [] // a browser that keeps nothing is fine
  }
}

function keep(views: readonly View[]): void {
  current = views
  try {
    localStorage.setItem(PLACE, JSON.stringify(views))
  } catch {
    // it holds for this visit then
  }
  for (const each of listeners) each()
}

function subscribe(listener: () => void): () => void {
  const fresh = (event: StorageEvent) => {
    if (event.key !== PLACE) return
    current = read() // another tab has changed them
    listener()
  }
  listeners.add(listener)
  addEventListener('storage', fresh)
  return () => {
    listeners.delete(listener)
    removeEventListener('storage', fresh)
  }
}

/** Gives the views, in the order of their names. */
export function useViews(): readonly View[] {
  return useSyncExternalStore(subscribe, () => current)
}

/** Gives where a view leads, as links take it: the server may show us under any path. */
export function placeOf({ href }: View) {
  const at = href.indexOf('?')
  const path = at < 0 ? href : href.slice(0, at)
  return { to: path, search: defaultParseSearch(at < 0 ? '' : href.slice(at)) } as never as { to: '/runs' }
}

/** Keeps an address under a name; one of the same name is replaced. */
export function saveView(view: View): void {
  if (!isView(view)) return
  const others = current.filter((one) => one.name !== view.name)
  keep([...others, view].sort((one, other) => one.name.localeCompare(other.name)).slice(0, MOST))
}

export function dropView(name: string): void {
  keep(current.filter((one) => one.name !== name))
}
