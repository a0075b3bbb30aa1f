import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import { approvals } from '../../api/asks'
import { stats, type Figure, type Stats, type StatsAsked } from '../../api/figures'
import { Chips } from '../../parts/Chips'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { length } from '../../parts/time'
import { plainly } from '../../parts/visible'
import { When } from '../../parts/When'
import { forFilter } from '../../parts/quoting'
import { Bars } from './Bars'
import { budgetNamed } from './budgets'
import { INTERVALS, PERIODS, type Period } from './periods'
import { totals } from './stacking'

/** Shows how things go: what ran, what was prevented, how long it took, and what waits. */
export function Overview() {
  useTitle('Overview')
  const { since = '24h' } = useSearch({ from: '/overview' })
  const go = useNavigate({ from: '/overview' })
  return (
    <div className="mx-auto max-w-6xl space-y-6 p-5">
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold">Overview</h1>
        <Chips label="Time" of={PERIODS} chosen={[since]} onChoose={(name: Period) => void go({ search: { since: name }, replace: true })} />
      </div>
      <div className="grid gap-5 lg:grid-cols-2">
        <Waiting />
        <InDoubt />
        <Effects since={since} />
        <Latency since={since} />
        <Replays since={since} />
        <Decisions since={since} />
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
      {(figures, all) => <Bars title="Repeats that were answered from the record" figures={figures} span={all} words="Repeats by tool" nothing="No server answered a repeat in this time. A program that opens the database itself answers them too, and leaves no note." />}
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
              <td className="py-1 pr-3 text-right">{took(one.p50_s)}</td>
              <td className="py-1 text-right">{took(one.p95_s)}</td>
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

/** Is a number that somebody should do something about; none is good news. */
function Figured({ name, count, children }: { name: string; count: string; children: ReactNode }) {
  return (
    <div className="flex items-center gap-4">
      <span className={`text-3xl font-semibold ${count === '0' ? 'text-muted' : 'text-ink'}`}>{count}</span>
      <div className="min-w-0 space-y-1">
        <h2 className="text-sm font-semibold">{name}</h2>
        <div className="text-sm">{children}</div>
      </div>
    </div>
  )
}

/** Shows what waits for a person to decide. */
function Waiting() {
  const pages = useInfiniteQuery(approvals('pending')).data?.pages ?? []
  const count = pages.reduce((sum, page) => sum + page.approvals.length, 0)
  return (
    <Card asked={{ metric: 'approvals', by: 'tool' }}>
      {(figures) => {
        const oldest = figures.filter((one) => one.oldest_at !== null).sort((one, other) => (one.oldest_at! < other.oldest_at! ? -1 : 1))[0]
        return (
          <Figured name="Approvals that wait" count={`${count.toLocaleString('en')}${pages.at(-1)?.next ? '+' : ''}`}>
            {oldest ? <>The oldest was asked <When at={oldest.oldest_at!} />: <Link to="/inbox" search={{ approval: oldest.oldest_id! }}>decide it</Link>.</> : 'Nobody waits.'}
          </Figured>
        )
      }}
    </Card>
  )
}

/** Shows what may have happened, and that somebody has to find out. */
function InDoubt() {
  return (
    <Card asked={{ metric: 'in_doubt', by: 'tool' }}>
      {(figures) => (
        <Figured name="In doubt" count={figures.reduce((sum, one) => sum + (one.count ?? 0), 0).toLocaleString('en')}>
          {figures.length === 0 ? 'Of everything else it is known what became of it.' : (
            <ul className="space-y-1">
              {figures.map((one) => (
                <li key={one.group}>
                  <Link to="/effects" search={{ q: `status:in_doubt tool:${forFilter(one.group ?? '')}` } as never}><Text>{one.group ?? ''}</Text></Link>: {one.count}
                  {one.oldest_at && <>, the oldest <When at={one.oldest_at} /></>}
                </li>
              ))}
            </ul>
          )}
        </Figured>
      )}
    </Card>
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
              <Budget key={one.group} of={one} {...budgetNamed(one.group ?? '')} />
            ))}
          </ul>
        </>
      )}
    </Card>
  )
}

function Budget({ of, name, counts }: { of: Figure; name: string; counts: string }) {
  const limit = Number(of.limit) || 1
  return (
    <li>
      <span className="flex justify-between gap-3">
        <span className="min-w-0"><Text>{name}</Text> <span className="text-xs text-muted"><Text>{counts}</Text></span></span>
        <span className="whitespace-nowrap">{of.used} of {of.limit}</span>
      </span>
      <meter min={0} max={limit} high={limit * 0.9} value={Number(of.used) || 0} aria-label={plainly(`${name}: ${of.used} of ${of.limit}`)} className="w-full" />
    </li>
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

const took = (seconds: number | null) => (seconds === null ? '' : length(seconds * 1000))
