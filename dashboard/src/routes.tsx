/** Which address shows which page. Everything one can choose on a page is in its address. */

import type { QueryClient } from '@tanstack/react-query'
import { createRootRoute, createRoute, createRouter, redirect } from '@tanstack/react-router'
import { HOME } from './api/client'
import { Inbox } from './pages/inbox/Inbox'
import { TABS, type Tab } from './pages/inbox/tabs'
import { Journal } from './pages/journal/Journal'
import { Effect } from './pages/effect/Effect'
import { Effects } from './pages/effects/Effects'
import { effectsSearch } from './pages/effects/search'
import { Events } from './pages/events/Events'
import { eventsSearch } from './pages/events/search'
import { Run } from './pages/run/Run'
import { runSearch } from './pages/run/search'
import { Runs } from './pages/runs/Runs'
import { runsSearch } from './pages/runs/search'
import { Overview } from './pages/overview/Overview'
import { overviewSearch } from './pages/overview/periods'
import { Settings } from './pages/settings/Settings'
import { Tools } from './pages/tools/Tools'
import { Empty } from './parts/Empty'
import { Trouble } from './parts/Trouble'
import { Shell } from './shell/Shell'

/** Lets nothing of an address through but what a page has read from it: the router would hand on all the rest as it is. */
function only<Search extends object>(read: (search: Record<string, unknown>) => Search) {
  return (search: Record<string, unknown>): Search => ({ ...Object.fromEntries(Object.keys(search).map((name) => [name, undefined])), ...read(search) }) as Search
}

const root = createRootRoute({
  component: Shell,
  errorComponent: ({ error, reset }) => <Trouble error={error} onRetry={reset} />,
  notFoundComponent: () => <Empty isPage title="There is no such page">It may have moved; the list on the left has all there are.</Empty>,
})

const home = createRoute({
  getParentRoute: () => root,
  path: '/',
  beforeLoad: () => {
    throw redirect({ to: '/inbox' })
  },
})

export type InboxSearch = { tab?: Tab; approval?: string }

export const inbox = createRoute({
  getParentRoute: () => root,
  path: '/inbox',
  component: Inbox,
  validateSearch: only((search): InboxSearch => ({
    ...(TABS.some((tab) => tab.name === search.tab) && { tab: search.tab as Tab }),
    ...(typeof search.approval === 'string' && { approval: search.approval }),
  })),
})

const journal = createRoute({ getParentRoute: () => root, path: '/journal', component: Journal })

const runs = createRoute({ getParentRoute: () => root, path: '/runs', component: Runs, validateSearch: only(runsSearch) })
const run = createRoute({ getParentRoute: () => root, path: '/runs/$runId', component: Run, validateSearch: only(runSearch) })
const effects = createRoute({ getParentRoute: () => root, path: '/effects', component: Effects, validateSearch: only(effectsSearch) })
const effect = createRoute({ getParentRoute: () => root, path: '/effects/$effectId', component: Effect })
const events = createRoute({ getParentRoute: () => root, path: '/events', component: Events, validateSearch: only(eventsSearch) })

const overview = createRoute({ getParentRoute: () => root, path: '/overview', component: Overview, validateSearch: only(overviewSearch) })
const tools = createRoute({ getParentRoute: () => root, path: '/tools', component: Tools })
const settings = createRoute({ getParentRoute: () => root, path: '/settings', component: Settings })

export function makeRouter(_questions: QueryClient) {
  return createRouter({
    routeTree: root.addChildren([home, inbox, journal, runs, run, effects, effect, events, overview, tools, settings]),
    basepath: HOME.pathname,
    defaultPreload: false,
    scrollRestoration: true,
  })
}

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof makeRouter>
  }
}
