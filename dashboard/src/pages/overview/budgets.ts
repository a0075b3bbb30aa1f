/** What a budget is called, in words: the ledger keeps what is counted, and for how long, in its name. */

import { span } from '../../parts/time'

export type Named = { readonly name: string; readonly counts: string }

/** Reads `refunds a day {"agent":"billing","seconds":86400,"sum":"amount"}`; what cannot be read stays as it is. */
export function budgetNamed(group: string): Named {
  const match = /^(.*) (\{".*\})$/s.exec(group)
  const words = match && read(match[2]!)
  if (!words) return { name: group, counts: '' }
  const { seconds, sum, ...per } = words
  const of = Object.entries(per).map(([name, value]) => `${name} ${String(value)}`)
  const what = typeof sum === 'string' ? `sum of ${sum}` : 'calls'
  return { name: match[1]!, counts: [`${what}, in any ${span(Number(seconds))}`, ...of].join(' · ') }
}

function read(text: string): Record<string, unknown> | null {
  try {
    const found = JSON.parse(text) as Record<string, unknown>
    return typeof found.seconds === 'number' ? found : null
  } catch {
    return null
  }
}
