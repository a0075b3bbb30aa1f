import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { stats, type Figure, type Stats, type StatsAsked } from '../../api/figures'
import { Chips } from '../../parts/Chips'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { plainly } from '../../parts/visible'
import { When } from '../../parts/When'
import { forFilter } from '../../parts/quoting'
import { Bars } from './Bars'
import { INTERVALS, PERIODS, type Period } from './periods'
import { totals } from './stacking'

/** Shows how things go: what ran, what was prevented, how long it took, and what waits. */
export function Overview() {
  const { since = '24h' } = useSearch({ from: '/overview' })
  const go = useNavigate({ from: '/overview' })
  return (
    <div className="mx-auto max-w-6xl space-y-6 p-5">
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold">Overview</h1>
        <Chips label="Time" of={PERIODS} chosen={[since]} onChoose={(name: Period) => void go({ search: { since: name }, replace: true })} />
      </div>
      <div className="grid gap-5 lg:grid-cols-2">
        <Effects since={since} />
        <Replays since={since} />
        <Latency since={since} />
        <Decisions since={since} />
        <Waiting />
        <Budgets />
      </div>
    </div>
  )
}

function Card({ asked, children }: { asked: StatsAsked; children: (figures: Figure[], all: Stats) => ReactNode }) {
  const { data, error, refetch } = useQuery(stats(asked))
  return (
    <section className="rounded-lg border border-line p-4">
      {error ? <Trouble error={error} onRetry={() => void refetch()} /> : data ? children(data.figures, data) : <p className="text-sm text-muted">Counting …</p>}
      {data && !data.is_complete && <p className="mt-2 text-xs text-warn">There is more than was looked at: only the newest {data.looked_at.toLocaleString('en')} count here.</p>}
    </section>
  )
}

function Effects({ since }: { since: Period }) {
  return (
    <Card asked={{ metric: 'effects', by: 'status', since, interval: INTERVALS[since] }}>
      {(figures, all) => (
        <Bars
          title="Effects"
          figures={figures}
          span={all}
          words="Effects by status"
          naming={(status) => <Link to="/effects" search={{ q: `status:${status} since:${since}` } as never}>{status.replaceAll('_', ' ')}</Link>}
        />
      )}
    </Card>
  )
}

function Replays({ since }: { since: Period }) {
  return (
    <Card asked={{ metric: 'replays', by: 'tool', since, interval: INTERVALS[since] }}>
      {(figures, all) => <Bars title="Repeats that were answered from the record" figures={figures} span={all} words="Repeats by tool" />}
    </Card>
  )
}

function Latency({ since }: { since: Period }) {
  return (
    <Card asked={{ metric: 'latency', by: 'tool', since }}>
      {(figures) => (
        <Lines title="How long tools take" empty="Nothing was executed in this time." heads={['tool', 'calls', 'half within', '95 % within']}>
          {figures.map((one) => (
            <tr key={one.group} className="border-t border-line">
              <th scope="row" className="py-1 pr-3 text-left font-normal"><Link to="/effects" search={{ q: `tool:${forFilter(one.group ?? '')} since:${since}` } as never}><Text>{one.group ?? ''}</Text></Link></th>
              <td className="py-1 pr-3 text-right">{one.count?.toLocaleString('en')}</td>
              <td className="py-1 pr-3 text-right">{seconds(one.p50_s)}</td>
              <td className="py-1 text-right">{seconds(one.p95_s)}</td>
            </tr>
          ))}
        </Lines>
      )}
    </Card>
  )
}

function Decisions({ since }: { since: Period }) {
  return (
    <Card asked={{ metric: 'decisions', by: 'person', since }}>
      {(figures) => (
        <Lines title="Who decided" empty="Nobody had to decide anything in this time." heads={['person', 'decisions']}>
          {totals(figures).map(([person, count]) => (
            <tr key={person} className="border-t border-line">
              <th scope="row" className="py-1 pr-3 text-left font-normal"><Text>{person}</Text></th>
              <td className="py-1 text-right">{count.toLocaleString('en')}</td>
            </tr>
          ))}
        </Lines>
      )}
    </Card>
  )
}

/** Shows what waits for a person: approvals that nobody decided, and effects that may have happened. */
function Waiting() {
  return (
    <div className="space-y-5">
      <Card asked={{ metric: 'approvals', by: 'tool' }}>
        {(figures) => {
          const oldest = figures.filter((one) => one.oldest_at !== null).sort((one, other) => (one.oldest_at! < other.oldest_at! ? -1 : 1))[0]
          return (
            <>
              <h2 className="text-sm font-semibold">Approvals that wait</h2>
              <p className="mt-1 text-sm">
                {oldest ? <>The oldest was asked <When at={oldest.oldest_at!} />: <Link to="/inbox" search={{ approval: oldest.oldest_id! }}>decide it</Link>.</> : 'Nobody waits.'}
              </p>
            </>
          )
        }}
      </Card>
      <Card asked={{ metric: 'in_doubt', by: 'tool' }}>
        {(figures) => (
          <>
            <h2 className="text-sm font-semibold">In doubt</h2>
            {figures.length === 0 ? <p className="mt-1 text-sm">Nothing.</p> : (
              <ul className="mt-1 space-y-1 text-sm">
                {figures.map((one) => (
                  <li key={one.group}>
                    <Link to="/effects" search={{ q: `status:in_doubt tool:${forFilter(one.group ?? '')}` } as never}><Text>{one.group ?? ''}</Text></Link>: {one.count}
                    {one.oldest_at && <>, the oldest <When at={one.oldest_at} /></>}
                  </li>
                ))}
              </ul>
            )}
          </>
        )}
      </Card>
    </div>
  )
}

function Budgets() {
  return (
    <Card asked={{ metric: 'budgets' }}>
      {(figures) => (
        <>
          <h2 className="text-sm font-semibold">Budgets</h2>
          {figures.length === 0 && <p className="mt-1 text-sm">No rule limits what may be spent.</p>}
          <ul className="mt-2 space-y-2 text-sm">
            {figures.map((one) => (
              <li key={one.group}>
                <span className="flex justify-between gap-3"><Text>{one.group ?? ''}</Text><span>{one.used} of {one.limit}</span></span>
                <meter min={0} max={Number(one.limit) || 1} high={(Number(one.limit) || 1) * 0.9} value={Number(one.used) || 0} aria-label={plainly(`${one.group}: ${one.used} of ${one.limit}`)} className="w-full" />
              </li>
            ))}
          </ul>
        </>
      )}
    </Card>
  )
}

function Lines({ title, heads, empty, children }: { title: string; heads: readonly string[]; empty: string; children: readonly ReactNode[] }) {
  if (children.length === 0) {
    return (
      <>
        <h2 className="text-sm font-semibold">{title}</h2>
        <p className="mt-1 text-sm">{empty}</p>
      </>
    )
  }
  return (
    <table className="w-full text-sm">
      <caption className="pb-2 text-left text-sm font-semibold">{title}</caption>
      <thead className="text-xs text-muted"><tr>{heads.map((head, index) => <th key={head} scope="col" className={`py-1 font-medium ${index === 0 ? 'text-left' : 'text-right'} pr-3 last:pr-0`}>{head}</th>)}</tr></thead>
      <tbody>{children}</tbody>
    </table>
  )
}

function seconds(value: number | null): string {
  if (value === null) return ''
  return value < 1 ? `${Math.round(value * 1000)} ms` : `${value.toFixed(value < 10 ? 1 : 0)} s`
}
