/** Instants and spans in words. Order never comes from these: the record has its own. */

import { useSyncExternalStore } from 'react'

let now = Date.now()
const listeners = new Set<() => void>()
let timer: ReturnType<typeof setInterval> | undefined

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  timer ??= setInterval(() => {
    now = Date.now()
    for (const each of listeners) each()
  }, 1000)
  return () => {
    listeners.delete(listener)
    if (listeners.size === 0) {
      clearInterval(timer)
      timer = undefined
    }
  }
}

/** Is the time, once a second, the same for everything on the page. */
export function useNow(): number {
  return useSyncExternalStore(subscribe, () => now)
}

const UNITS: [number, string][] = [[86_400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']]

/** Says how long a span is, in its two largest units: `2 h 5 min`. */
export function span(seconds: number): string {
  let left = Math.max(0, Math.round(seconds))
  const said: string[] = []
  for (const [size, unit] of UNITS) {
    const count = Math.floor(left / size)
    if (count > 0 || (unit === 's' && said.length === 0)) said.push(`${count} ${unit}`)
    left -= count * size
    if (said.length === 2) break
  }
  return said.join(' ')
}

/** Counts things: `1 event`, `1,204 events`. */
export const many = (count: number, thing: string) => `${count.toLocaleString('en')} ${thing}${count === 1 ? '' : 's'}`

/** Says how long something took, from milliseconds on. */
export function length(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.max(0, Math.round(milliseconds))} ms`
  return milliseconds < 60_000 ? `${(milliseconds / 1000).toFixed(milliseconds < 10_000 ? 1 : 0)} s` : span(milliseconds / 1000)
}

/** Is by how many seconds two clocks may differ before that is worth a word; ours ticks once a second. */
const CLOCKS = 2

/** Says when something was or will be, seen from now. */
export function fromNow(instant: string, at: number): string {
  const seconds = (Date.parse(instant) - at) / 1000
  if (Math.abs(seconds) < CLOCKS) return 'just now'
  return seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`
}

export type Zone = 'utc' | 'local'

/** Writes an instant out, with its zone. */
export function written(instant: string, zone: Zone): string {
  const moment = new Date(instant)
  if (zone === 'utc') return `${moment.toISOString().slice(0, 23).replace('T', ' ')} UTC`
  return moment.toLocaleString(undefined, { dateStyle: 'medium', timeStyle: 'long' })
}
