/** What can be chosen on the page of a run. */

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
}

export function runSearch(search: Record<string, unknown>): RunSearch {
  return {
    ...(TABS.some(([name]) => name === search.tab) && { tab: search.tab as Tab }),
    ...(Number.isSafeInteger(search.line) && (search.line as number) >= 0 && { line: search.line as number }),
    ...(search.idle === 'shown' && { idle: 'shown' as const }),
    ...(search.lines === 'all' && { lines: 'all' as const }),
  }
}
