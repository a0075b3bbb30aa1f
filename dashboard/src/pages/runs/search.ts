/** What can be chosen on the page of runs. */

import type { RunStatus } from '../../api/runs'

export const RUN_STATUSES: readonly RunStatus[] = ['active', 'blocked', 'manual_review_required', 'failed', 'completed', 'canceled', 'handed_over', 'open']
export type RunsSearch = { status?: RunStatus; q?: string }

export function runsSearch(search: Record<string, unknown>): RunsSearch {
  return {
    ...(RUN_STATUSES.includes(search.status as RunStatus) && { status: search.status as RunStatus }),
    ...textIn(search, 'q'),
  }
}

/** Takes a text out of an address; what the router read as a number or as true is a text here all the same. */
export function textIn<Name extends string>(search: Record<string, unknown>, name: Name): { [Key in Name]?: string } {
  const value = search[name]
  const text = typeof value === 'string' ? value : value === undefined || value === null || typeof value === 'object' ? '' : String(value)
  return (text ? { [name]: text } : {}) as { [Key in Name]?: string }
}
