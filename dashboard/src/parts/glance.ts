/** Arguments in one line: their beginning, for whoever looks through a list. */

import { longNumber } from '../api/exactly'

const MOST = 4
const LONGEST = 40

/** Gives the first few arguments; the whole is where they are decided on or looked at. */
export function glance(args: unknown): string {
  const members = Object.entries((args ?? {}) as Record<string, unknown>)
  if (members.length === 0) return 'without arguments'
  const words = members.slice(0, MOST).map(([name, value]) => `${name}: ${short(value)}`)
  return words.join(', ') + (members.length > MOST ? ', …' : '')
}

function short(value: unknown): string {
  if (typeof value === 'string') return value.length > LONGEST ? `${value.slice(0, LONGEST)}…` : value
  if (Array.isArray(value)) return `[${value.length}]`
  if (typeof value === 'object' && value !== null) return longNumber(value) ?? '{…}'
  return String(value)
}
