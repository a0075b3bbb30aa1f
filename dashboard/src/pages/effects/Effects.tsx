import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'
import type { Effect } from '../../api/asks'
import { effectsPage, type EffectStatus } from '../../api/effects'
import { useEndless } from '../../api/endless'
import { glance } from '../../parts/glance'
import { Empty, Snippet } from '../../parts/Empty'
import { Listing } from '../../parts/Listing'
import { Status } from '../../parts/Status'
import { WHOLE_LINE, type Column } from '../../parts/Table'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'
import { EFFECT_STATUSES } from './search'

/** Effects come with their arguments, so a page of them is smaller. */
const PAGE = 100

/** Shows all effects, newest first, or those that a filter asks for, and follows them. */
export function Effects() {
  const { status, q = '' } = useSearch({ from: '/effects' })
  const go = useNavigate({ from: '/effects' })
  const filter = useCallback((text: string) => void go({ search: ({ q: _, ...before }) => ({ ...before, ...(text.trim() && { q: text }) }), replace: true }), [go])
  return (
    <Listing
      title="Effects"
      q={q}
      example="tool:stripe.* args.amount:>1000 since:24h"
      statuses={EFFECT_STATUSES}
      status={status}
      onFilter={filter}
      onStatus={(name) => void go({ search: { ...(q && { q }), ...(name !== status && { status: name }) }, replace: true })}
      columns={COLUMNS}
      list={useEffects(status, q)}
      nothing={<Nothing isFiltered={q !== '' || status !== undefined} />}
    />
  )
}

function useEffects(status: EffectStatus | undefined, q: string) {
  return useEndless<Effect>({
    name: ['effects', status, q],
    page: async (before) => {
      const page = await effectsPage({ status, q, before: before || undefined, limit: PAGE })
      return { things: page.effects, next: page.next }
    },
    about: ({ effect_id: id, run_id: run }) =>
      id === null ? null : {
        id,
        // The list is ordered by id: the first one that is not after this one is this one, if it fits.
        ask: async () => (await effectsPage({ status, q, run, before: `${id}~`, limit: 1 })).effects.find((one) => one.id === id) ?? null,
      },
  })
}

const COLUMNS: readonly Column<Effect>[] = [
  { name: 'status', width: '10rem', cell: (effect) => <Status is={effect.status} /> },
  { name: 'tool', width: 'minmax(8rem, 2fr)', cell: (effect) => <Link to="/effects/$effectId" params={{ effectId: effect.id }} className={`font-medium ${WHOLE_LINE}`}><Text>{effect.tool}</Text></Link> },
  { name: 'arguments', width: 'minmax(8rem, 3fr)', isMinor: true, cell: (effect) => <span className="font-mono text-xs text-muted"><Text>{effect.erased.includes('args') ? 'erased' : glance(effect.args)}</Text></span> },
  { name: 'side effect', width: '9rem', isMinor: true, cell: (effect) => effect.side_effect.replaceAll('_', ' ') },
  { name: 'run', width: 'minmax(6rem, 1.5fr)', cell: (effect) => <Text>{effect.run_id}</Text> },
  { name: 'attempts', width: '5rem', isMinor: true, cell: (effect) => effect.attempt },
  { name: 'updated', width: '7.5rem', cell: (effect) => <span className="text-muted"><When at={effect.updated_at} /></span> },
]

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No effect is like that"><>Take something out of the filter, or <Link to="/effects">show all of them</Link>.</></Empty>
  return (
    <Empty title="No tool was called yet">
      <p>An effect is the one record of a tool call and its fate:</p>
      <Snippet>{'@ledger.tool(side_effect="payment", key=["order_id"])\ndef refund(order_id: str, amount: int): ...'}</Snippet>
    </Empty>
  )
}
