/** The parts of the inbox. */

import type { Approval } from '../../api/asks'

export type Tab = 'pending' | 'approved' | 'denied' | 'expired' | 'all'

export const TABS: readonly { readonly name: Tab; readonly title: string; readonly status?: Approval['status'] }[] = [
  { name: 'pending', title: 'Pending', status: 'pending' },
  { name: 'approved', title: 'Approved, not started', status: 'approved' },
  { name: 'denied', title: 'Denied', status: 'denied' },
  { name: 'expired', title: 'Expired', status: 'expired' },
  { name: 'all', title: 'All' },
]
