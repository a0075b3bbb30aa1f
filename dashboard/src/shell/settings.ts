/** What a person likes, kept in this browser only. */

import { useSyncExternalStore } from 'react'
import type { Zone } from '../parts/time'

export type Theme = 'system' | 'light' | 'dark'
export type Settings = { readonly theme: Theme; readonly zone: Zone }

const PLACE = 'indelible.settings'
const listeners = new Set<() => void>()
let current = read()

function read(): Settings {
  try {
    const kept = JSON.parse(localStorage.getItem(PLACE) ?? '{}') as Partial<Settings>
    return {
      theme: kept.theme === 'light' || kept.theme === 'dark' ? kept.theme : 'system',
      zone: kept.zone === 'local' ? 'local' : 'utc',
    }
  } catch {
    return { theme: 'system', zone: 'utc' } // a browser that keeps nothing is fine
  }
}

/** Gives what is set, and renders again when it changes. */
export function useSettings(): Settings {
  return useSyncExternalStore(subscribe, () => current)
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

/** Changes what is set, here and in the next visit. */
export function change(part: Partial<Settings>): void {
  current = { ...current, ...part }
  try {
    localStorage.setItem(PLACE, JSON.stringify(current))
  } catch {
    // it holds for this visit then
  }
  paint()
  for (const each of listeners) each()
}

/** Puts the theme on the page; the system's wish is followed as it changes. */
export function paint(): void {
  const dark = current.theme === 'dark' || (current.theme === 'system' && matchMedia('(prefers-color-scheme: dark)').matches)
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
}

/** Paints now and whenever the system changes its mind. */
export function followSystem(): void {
  paint()
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', paint)
}
