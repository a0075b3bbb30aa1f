import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { X } from 'lucide-react'
import { useEffect, useMemo, useRef, useState, type Ref } from 'react'
import { approvals, me, type Approval, type Effect } from '../../api/asks'
import { effectsPage } from '../../api/effects'
import { Button } from '../../parts/Button'
import { Empty, Snippet } from '../../parts/Empty'
import { glance } from '../../parts/glance'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { Countdown, When } from '../../parts/When'
import { useHotkeys } from '../../shell/hotkeys'
import { gathered, neighbour } from './deciding'
import { Delegating } from './Delegating'
import { Detail } from './Detail'
import { isMeant, useHand } from './hand'
import { filterOf, TABS, type Tab } from './tabs'

/** Shows what waits for a person, and everything needed to decide it. */
export function Inbox() {
  const { tab = 'pending', approval } = useSearch({ from: '/inbox' })
  useTitle('Inbox')
  const name = useQuery(me).data?.name
  const asked = useInfiniteQuery({ ...approvals(TABS.find((one) => one.name === tab)?.status, filterOf(tab, name ?? '')), enabled: tab !== 'mine' || name !== undefined })
  const found = useMemo(() => asked.data?.pages.flatMap((page) => page.approvals) ?? [], [asked.data])
  const go = useNavigate({ from: '/inbox' })
  const [said, setSaid] = useState('')
  const list = useRef<HTMLUListElement>(null)
  const place = useRef(0)
  useEffect(() => {
    // A decided question leaves the list; then its place is still known.
    const at = found.findIndex((one) => one.id === approval)
    if (at >= 0) place.current = at
  }, [found, approval])
  useHand()
  const move = (by: 1 | -1) => {
    const next = neighbour(found.map((one) => one.id), approval, place.current, by)
    if (next && isMeant()) void go({ search: { tab, approval: next }, replace: true })
  }
  useHotkeys({ j: () => move(1), k: () => move(-1) })
  const done = (words: string) => {
    // What was decided stays in view. The next one is opened by the person, and by nothing else.
    setSaid(words)
    list.current?.focus()
  }
  return (
    <div className="flex h-full min-h-0 flex-col max-lg:overflow-auto">
      <Tabs />
      <p role="status" className={said ? 'flex items-center justify-between gap-3 bg-good-ground px-4 py-1.5 text-sm text-good' : ''}>
        {said && <Text>{said}</Text>}
        {said && <button type="button" aria-label="Do not show this any more" onClick={() => setSaid('')} className="rounded p-0.5"><X size={15} aria-hidden /></button>}
      </p>
      {asked.error ? <Trouble error={asked.error} onRetry={() => void asked.refetch()} /> : null}
      <div className="flex min-h-0 flex-1 max-lg:block max-lg:flex-none">
        {found.length > 0 && (
          <List ref={list} of={found} chosen={approval} more={asked.hasNextPage ? () => void asked.fetchNextPage() : undefined} />
        )}
        <div className="min-w-0 flex-1 overflow-auto max-lg:overflow-visible">
          {approval ? <Detail key={approval} id={approval} onDone={done} /> : asked.isSuccess && (found.length > 0 ? <Unopened /> : <Nothing in={tab} />)}
        </div>
      </div>
    </div>
  )
}

function Tabs() {
  const { tab = 'pending' } = useSearch({ from: '/inbox' })
  return (
    <div className="flex flex-wrap items-center gap-1 border-b border-line px-3 py-1.5">
      <h1 className="mr-3 font-semibold">Inbox</h1>
      {TABS.map((one) => (
        <Link
          key={one.name}
          from="/inbox"
          search={{ tab: one.name }}
          className={`rounded-md px-2 py-1 text-sm text-ink no-underline hover:bg-raised ${tab === one.name ? 'bg-sunken font-semibold' : ''}`}
          {...(tab === one.name && { 'aria-current': 'page' as const })}
        >
          {one.title}
        </Link>
      ))}
      <span className="ml-auto"><Delegating /></span>
    </div>
  )
}

/** Gives the calls that wait, by their ids: questions of one tool are told apart by what is asked. */
function useCalls(isWaiting: boolean): ReadonlyMap<string, Effect> {
  const { data } = useQuery({ queryKey: ['approvals', 'calls'], queryFn: () => effectsPage({ status: 'requires_approval', q: '', limit: MOST_GLANCED }), enabled: isWaiting })
  return useMemo(() => new Map(data?.effects.map((effect) => [effect.id, effect])), [data])
}

/** Is for how many lines arguments are read along; each may be large, and nobody may make the inbox slow. */
const MOST_GLANCED = 30

function List({ ref, of, chosen, more }: { ref: Ref<HTMLUListElement>; of: readonly Approval[]; chosen: string | undefined; more: (() => void) | undefined }) {
  const calls = useCalls(of.some((one) => one.status === 'pending'))
  return (
    <div className="shrink-0 overflow-auto border-line max-lg:max-h-56 short:max-h-28 max-lg:border-b lg:w-90 lg:border-r">
      <ul ref={ref} tabIndex={-1} aria-label="Approvals" className="outline-none">
        {of.map((one) => (
          <Line key={one.id} of={one} call={calls.get(one.effect_id)} isChosen={one.id === chosen} />
        ))}
      </ul>
      {more && <Button className="m-3" onClick={more}>Show older ones</Button>}
    </div>
  )
}

function Line({ of, call, isChosen }: { of: Approval; call: Effect | undefined; isChosen: boolean }) {
  useEffect(() => {
    if (isChosen) document.getElementById(`line-${of.id}`)?.scrollIntoView({ block: 'nearest' })
  }, [isChosen, of.id])
  return (
    <li id={`line-${of.id}`} className={`border-b border-line ${isChosen ? 'bg-sunken' : 'hover:bg-raised'}`}>
      <Link from="/inbox" search={(before) => ({ ...before, approval: of.id })} className="block space-y-0.5 px-3 py-2 text-ink no-underline" {...(isChosen && { 'aria-current': 'true' as const })}>
        <span className="flex items-center justify-between gap-2">
          <span className="truncate font-medium"><Text>{of.tool}</Text></span>
          {of.status === 'pending' ? <span className="text-xs"><Countdown to={of.expires_at} /></span> : <Status is={of.status} />}
        </span>
        {call && <span className="block truncate font-mono text-xs"><Text>{glance(call.args)}</Text></span>}
        <span className="flex items-center justify-between gap-2 text-xs text-muted">
          <span className="truncate">{of.side_effect.replaceAll('_', ' ')} · <Text>{of.run_id}</Text></span>
          <When at={of.asked_at} />
        </span>
        {of.status === 'pending' && gathered(of) && <span className="block text-xs text-wait">{gathered(of)}</span>}
      </Link>
    </li>
  )
}

function Unopened() {
  return (
    <Empty title="Open a request to decide it">
      <p>Choose one in the list, or press <kbd>j</kbd>. Requests are never opened for you, so that no key or click meant for one of them reaches another.</p>
    </Empty>
  )
}

function Nothing({ in: tab }: { in: Tab }) {
  if (tab !== 'pending') {
    return (
      <Empty title={TABS.find((one) => one.name === tab)!.says}>
        <Link from="/inbox" search={{ tab: 'pending' }}>Show what waits now</Link>
      </Empty>
    )
  }
  return (
    <Empty title="Nobody waits for you">
      <p>A tool call waits here when a rule says that a person has to look at it first:</p>
      <Snippet>{'@ledger.tool(side_effect="payment", approval="required")\ndef refund(order_id: str, amount: int): ...'}</Snippet>
    </Empty>
  )
}
