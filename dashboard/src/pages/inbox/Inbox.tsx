import { useInfiniteQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useEffect, useMemo } from 'react'
import { approvals, type Approval } from '../../api/asks'
import { Button } from '../../parts/Button'
import { Empty, Snippet } from '../../parts/Empty'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { Countdown, When } from '../../parts/When'
import { useHotkeys } from '../../shell/hotkeys'
import { Detail } from './Detail'
import { TABS } from './tabs'

/** Shows what waits for a person, and everything needed to decide it. */
export function Inbox() {
  const { tab = 'pending', approval } = useSearch({ from: '/inbox' })
  const asked = useInfiniteQuery(approvals(TABS.find((one) => one.name === tab)?.status))
  const found = useMemo(() => asked.data?.pages.flatMap((page) => page.approvals) ?? [], [asked.data])
  const go = useNavigate({ from: '/inbox' })
  const chosen = found.find((one) => one.id === approval) ?? (approval ? undefined : found[0])
  const move = (by: number) => {
    const at = found.findIndex((one) => one.id === chosen?.id)
    const next = found[Math.min(found.length - 1, Math.max(0, at + by))]
    if (next) void go({ search: { tab, approval: next.id }, replace: true })
  }
  useHotkeys({ j: () => move(1), k: () => move(-1) })
  const shown = approval ?? chosen?.id
  return (
    <div className="flex h-full min-h-0 flex-col">
      <Tabs />
      {asked.error ? <Trouble error={asked.error} onRetry={() => void asked.refetch()} /> : null}
      <div className="flex min-h-0 flex-1 max-lg:flex-col">
        {found.length > 0 && (
          <List of={found} chosen={shown} more={asked.hasNextPage ? () => void asked.fetchNextPage() : undefined} />
        )}
        <div className="min-w-0 flex-1 overflow-auto">
          {shown ? <Detail key={shown} id={shown} onDone={() => move(1)} /> : asked.isSuccess && <Nothing isPending={tab === 'pending'} />}
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
    </div>
  )
}

function List({ of, chosen, more }: { of: readonly Approval[]; chosen: string | undefined; more: (() => void) | undefined }) {
  return (
    <div className="shrink-0 overflow-auto border-line max-lg:max-h-56 max-lg:border-b lg:w-90 lg:border-r">
      <ul aria-label="Approvals">
        {of.map((one) => (
          <Line key={one.id} of={one} isChosen={one.id === chosen} />
        ))}
      </ul>
      {more && <Button className="m-3" onClick={more}>Show older ones</Button>}
    </div>
  )
}

function Line({ of, isChosen }: { of: Approval; isChosen: boolean }) {
  useEffect(() => {
    if (isChosen) document.getElementById(`line-${of.id}`)?.scrollIntoView({ block: 'nearest' })
  }, [isChosen, of.id])
  return (
    <li id={`line-${of.id}`} className={`border-b border-line ${isChosen ? 'bg-sunken' : 'hover:bg-raised'}`}>
      <Link from="/inbox" search={(before) => ({ ...before, approval: of.id })} className="block space-y-0.5 px-3 py-2 text-ink no-underline" {...(isChosen && { 'aria-current': 'true' as const })}>
        <span className="flex items-center justify-between gap-2">
          <span className="truncate font-medium"><Text>{of.tool}</Text></span>
          <Status is={of.status} />
        </span>
        <span className="flex items-center justify-between gap-2 text-xs text-muted">
          <span className="truncate">{of.side_effect.replaceAll('_', ' ')} · <Text>{of.run_id}</Text> · <When at={of.asked_at} /></span>
          {of.status === 'pending' && <Countdown to={of.expires_at} />}
        </span>
        {of.needs.length > 0 && of.status === 'pending' && <span className="block text-xs text-muted">{of.votes.length > 0 ? `${of.votes.length} decided, ` : ''}{of.lacking} to go</span>}
      </Link>
    </li>
  )
}

function Nothing({ isPending }: { isPending: boolean }) {
  if (!isPending) return <Empty title="Nothing here" />
  return (
    <Empty title="Nobody waits for you">
      <p>A tool call waits here when a rule says that a person has to look at it first:</p>
      <Snippet>{'@ledger.tool(side_effect="payment", approval="required")\ndef refund(order_id: str, amount: int): ...'}</Snippet>
    </Empty>
  )
}
