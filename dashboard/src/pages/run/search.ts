/** What can be chosen on the page of a run. */

import { textIn } from '../runs/search'

export type Tab = 'timeline' | 'effects' | 'events' | 'checkpoints' | 'artifacts' | 'approvals' | 'packet' | 'integrity'

export const TABS: readonly (readonly [Tab, string])[] = [
  ['timeline', 'Timeline'],
  ['effects', 'Effects'],
  ['events', 'Events'],
  ['checkpoints', 'Checkpoints'],
  ['artifacts', 'Artifacts'],
  ['approvals', 'Approvals'],
  ['packet', 'Resume packet'],
  ['integrity', 'Integrity'],
]

export type RunSearch = {
  tab?: Tab
  /** The event that is looked at. */
  line?: number
  /** All time is drawn as long as it was. */
  idle?: 'shown'
  /** Every call has its own line. */
  lines?: 'all'
  /** The stretch of time that is looked at, in milliseconds since 1970; all of it where nothing is said. */
  from?: number
  to?: number
  /** The checkpoint whose state is shown, and the one it is compared with. */
  saved?: string
  beside?: string
}

export function runSearch(search: Record<string, unknown>): RunSearch {
  return {
    ...(TABS.some(([name]) => name === search.tab) && { tab: search.tab as Tab }),
    ...(Number.isSafeInteger(search.line) && (search.line as number) >= 0 && { line: search.line as number }),
    ...(search.idle === 'shown' && { idle: 'shown' as const }),
    ...(search.lines === 'all' && { lines: 'all' as const }),
    ...stretch(search.from, search.to),
    ...textIn(search, 'saved'),
    ...textIn(search, 'beside'),
  }
}

function stretch(from: unknown, to: unknown): { from?: number; to?: number } {
  return typeof from === 'number' && typeof to === 'number' && from < to ? { from, to } : {}
}
