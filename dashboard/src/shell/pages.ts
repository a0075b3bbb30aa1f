/** The pages, in the order in which they are listed; each with the key that leads there after `g`. */

import { Activity, ChartColumn, Inbox, ListChecks, type LucideIcon, ScrollText, Settings, ShieldCheck, Wrench } from 'lucide-react'

export type Page = { readonly to: string; readonly name: string; readonly icon: LucideIcon; readonly key: string }

export const PAGES: readonly Page[] = [
  { to: '/inbox', name: 'Inbox', icon: Inbox, key: 'i' },
  { to: '/overview', name: 'Overview', icon: ChartColumn, key: 'o' },
  { to: '/runs', name: 'Runs', icon: ListChecks, key: 'r' },
  { to: '/effects', name: 'Effects', icon: Activity, key: 'f' },
  { to: '/events', name: 'Events', icon: ScrollText, key: 'e' },
  { to: '/journal', name: 'Journal', icon: ShieldCheck, key: 'j' },
  { to: '/tools', name: 'Tools and policy', icon: Wrench, key: 't' },
  { to: '/settings', name: 'Settings', icon: Settings, key: 's' },
]
