import { useInfiniteQuery, useQueryClient } from '@tanstack/react-query'
import { Link, Outlet, useLocation, useNavigate } from '@tanstack/react-router'
import { Bookmark } from 'lucide-react'
import { useEffect, useRef, useState } from 'react'
import { approvals } from '../api/asks'
import { useNews } from '../api/live'
import { Text } from '../parts/Text'
import { useWaiting } from '../parts/title'
import { placeOf, useViews } from '../parts/saved_views'
import { Checklist } from './Checklist'
import { Help } from './Help'
import { useHotkeys, type Hotkeys } from './hotkeys'
import { PAGES } from './pages'
import { Palette } from './Palette'
import { TopBar } from './TopBar'

/** Is what stays while pages change: where one can go, what time it is meant in, and whether the record holds. */
export function Shell() {
  const go = useNavigate()
  const [isAsking, setAsking] = useState(false)
  const [isHelping, setHelping] = useState(false)
  useNews(useQueryClient())
  const ways: Hotkeys = Object.fromEntries(PAGES.map((page) => [`g ${page.key}`, () => void go({ to: page.to })]))
  useHotkeys({ ...ways, 'mod+k': () => setAsking(true), '?': () => setHelping(true) })
  return (
    <div className="flex h-dvh flex-col md:flex-row short:h-auto">
      <a href="#page" className="sr-only focus:not-sr-only focus:absolute focus:z-10 focus:m-2 focus:rounded focus:bg-paper focus:px-3 focus:py-2">
        Skip to the page
      </a>
      <Nav />
      <div className="flex min-h-0 min-w-0 flex-1 flex-col">
        <TopBar onAsk={() => setAsking(true)} onHelp={() => setHelping(true)} />
        <Checklist />
        <main id="page" tabIndex={-1} className="min-h-0 flex-1 overflow-auto short:h-dvh short:flex-none">
          <Outlet />
        </main>
      </div>
      {isAsking && <Palette onClose={() => setAsking(false)} />}
      {isHelping && <Help onClose={() => setHelping(false)} />}
    </div>
  )
}

function Nav() {
  const list = useRef<HTMLElement>(null)
  const { pathname } = useLocation()
  useEffect(() => {
    // Where there is little room the list lies sideways: the page that is open is in sight all the same.
    list.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'center' })
  }, [pathname])
  return (
    <nav ref={list} aria-label="Pages" className="print:hidden flex shrink-0 gap-1 overflow-x-auto border-line bg-raised p-2 max-md:border-b md:w-48 md:flex-col md:border-r">
      <p className="hidden px-2 pt-1 pb-3 font-semibold tracking-tight md:block">Indelible</p>
      {PAGES.map(({ to, name, icon: Icon }) => (
        <Link
          key={to}
          to={to}
          className="flex items-center gap-2 rounded-md px-2 py-1.5 text-sm whitespace-nowrap text-ink no-underline hover:bg-sunken"
          activeProps={{ className: 'bg-sunken font-semibold', 'aria-current': 'page' }}
        >
          <Icon size={16} aria-hidden />
          {name}
          {to === '/inbox' && <Waiting />}
        </Link>
      ))}
      <SavedViews />
    </nav>
  )
}

/** Lists the views that were saved in this browser; where there is little room, Ctrl K has them. */
function SavedViews() {
  const views = useViews()
  if (views.length === 0) return null
  return (
    <div className="mt-4 min-h-0 max-md:hidden md:overflow-y-auto">
      <p className="px-2 pb-1 text-xs text-muted">Saved views</p>
      {views.map((view) => (
        <Link key={view.name} {...placeOf(view)} activeOptions={{ exact: true, includeSearch: true }} className="flex items-center gap-2 rounded-md px-2 py-1 text-sm text-ink no-underline hover:bg-sunken" activeProps={{ className: 'font-semibold', 'aria-current': 'page' }}>
          <Bookmark size={14} aria-hidden className="shrink-0" /> <span className="truncate"><Text>{view.name}</Text></span>
        </Link>
      ))}
    </div>
  )
}

/** Says how many approvals wait for somebody. */
function Waiting() {
  const { data } = useInfiniteQuery(approvals('pending'))
  const pages = data?.pages ?? []
  const count = pages.reduce((sum, page) => sum + page.approvals.length, 0)
  const told = `${count}${pages.at(-1)?.next ? '+' : ''}`
  useWaiting(count === 0 ? '' : told)
  if (count === 0) return null
  return (
    <span className="ml-auto rounded-full bg-wait-ground px-1.5 text-xs text-wait" aria-label={`${count} waiting`}>
      {told}
    </span>
  )
}
