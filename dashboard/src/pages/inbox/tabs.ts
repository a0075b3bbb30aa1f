/** The parts of the inbox. */

import type { Approval } from '../../api/asks'
import { forFilter } from '../../parts/quoting'

export type Tab = 'pending' | 'mine' | 'decided' | 'expired' | 'all'

export const TABS: readonly { readonly name: Tab; readonly title: string; readonly says: string; readonly status?: Approval['status'] }[] = [
  { name: 'pending', title: 'Pending', says: 'Nobody waits for you', status: 'pending' },
  { name: 'mine', title: 'Mine', says: 'You have neither asked nor answered anything' },
  { name: 'decided', title: 'Decided', says: 'Nothing has been decided' },
  { name: 'expired', title: 'Expired', says: 'No question ran out of time', status: 'expired' },
  { name: 'all', title: 'All', says: 'Nothing was ever asked' },
]

/** Gives the filter of a tab: what this person asked or answered, or what is answered. */
export function filterOf(tab: Tab, name: string): string {
  if (tab === 'mine') return `actor:${forFilter(name)}`
  return tab === 'decided' ? 'status:approved,consumed,denied' : ''
}
