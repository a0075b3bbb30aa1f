import { useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { useCallback } from 'react'
import { useEndless } from '../../api/endless'
import { byBeginning } from '../../api/placing'
import { runsPage, storyOfLine, type Run, type RunStatus } from '../../api/runs'
import { Empty, Snippet } from '../../parts/Empty'
import { useResting, WHOLE_LINE, type Column } from '../../parts/Table'
import { Listing } from '../../parts/Listing'
import { forFilter } from '../../parts/quoting'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'
import { RUN_STATUSES } from './search'

const PAGE = 200

/** Shows all runs, or those that a filter asks for, and follows them. */
export function Runs() {
  const { status, q = '' } = useSearch({ from: '/runs' })
  const go = useNavigate({ from: '/runs' })
  const filter = useCallback((text: string) => void go({ search: ({ q: _, ...before }) => ({ ...before, ...(text.trim() && { q: text }) }), replace: true }), [go])
  return (
    <Listing
      title="Runs"
      q={q}
      example='agent:billing since:24h "order 12"'
      statuses={RUN_STATUSES}
      status={status}
      onFilter={filter}
      onStatus={(name) => void go({ search: { ...(q && { q }), ...(name !== status && { status: name }) }, replace: true })}
      columns={COLUMNS}
      list={useRuns(status, q)}
      nothing={<Nothing isFiltered={q !== '' || status !== undefined} />}
    />
  )
}

function useRuns(status: RunStatus | undefined, q: string) {
  return useEndless<Run>({
    name: ['runs', status, q],
    isBefore: byBeginning,
    page: async (before) => {
      const page = await runsPage({ status, q, before: before || undefined, limit: PAGE })
      return { things: page.runs, next: page.next }
    },
    about: ({ run_id: id }) => ({
      id,
      ask: async () => (await runsPage({ status, q: `${q} run:${forFilter(id)}`.trim(), limit: 1 })).runs.find((run) => run.id === id) ?? null,
    }),
  })
}

const COLUMNS: readonly Column<Run>[] = [
  { name: 'status', width: '12rem', cell: (run) => <Status is={run.status} /> },
  { name: 'run', width: 'minmax(8rem, 2fr)', cell: (run) => <Link to="/runs/$runId" params={{ runId: run.id }} className={`font-medium ${WHOLE_LINE}`}><Text>{run.id}</Text></Link> },
  { name: 'agent', width: 'minmax(5rem, 1fr)', cell: (run) => (run.status === 'open' ? <Unknown /> : <Text>{run.agent}</Text>) },
  { name: 'intent', width: 'minmax(8rem, 3fr)', isMinor: true, cell: (run) => (run.status === 'open' ? <Unknown /> : <span className="text-muted"><Text>{run.intent}</Text></span>) },
  { name: 'step', width: 'minmax(4rem, 1fr)', isMinor: true, cell: (run) => <Step of={run} /> },
  { name: 'effects', width: '7rem', isMinor: true, cell: (run) => <Effects of={run} /> },
  { name: 'began', width: '7.5rem', isMinor: true, cell: (run) => <span className="text-muted"><When at={run.created_at} /></span> },
  { name: 'updated', width: '7.5rem', cell: (run) => <span className="text-muted"><When at={run.updated_at} /></span> },
]

function Unknown() {
  return <span className="text-muted" title="This run was never started: its id only groups calls">unknown</span>
}

/** Runs with more events are not read through for a line of a list. */
const MOST_EVENTS = 5000

/** Gives what a run's events tell, as soon as the list stands still: the server reads the run for it. */
function useStory(run: Run) {
  const isResting = useResting()
  return useQuery({ ...storyOfLine(run.id), enabled: isResting && (run.seq ?? 0) < MOST_EVENTS && !run.id.includes('/') }).data
}

function Step({ of }: { of: Run }) {
  const story = useStory(of)
  return <>{story?.current_step && <Text>{story.current_step}</Text>}</>
}

function Effects({ of }: { of: Run }) {
  const story = useStory(of)
  if (!story) return null
  const doubts = story.effects.filter((line) => line.status === 'in_doubt').length
  return <>{story.effects.length.toLocaleString('en')}{doubts > 0 && <span className="text-warn"> · {doubts} in doubt</span>}</>
}

function Nothing({ isFiltered }: { isFiltered: boolean }) {
  if (isFiltered) return <Empty title="No run is like that"><>Take something out of the filter, or <Link to="/runs">show all of them</Link>.</></Empty>
  return (
    <Empty title="There are no runs yet">
      <p>A run is one piece of an agent's work. It is listed as soon as a call names it. Start one, and it has an agent, an intent and an end:</p>
      <Snippet>{'with ledger.start_run("order-123", agent="billing"):\n    refund(order_id="123", amount=5)'}</Snippet>
    </Empty>
  )
}
