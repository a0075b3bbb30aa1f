import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useNavigate, useSearch } from '@tanstack/react-router'
import { Loader, ShieldAlert, ShieldCheck } from 'lucide-react'
import { checkpoints, report as askReport, type Checkpoint, type Report } from '../../../api/runs'
import { Button } from '../../../parts/Button'
import { Id } from '../../../parts/Copy'
import { Empty, Snippet } from '../../../parts/Empty'
import { Text } from '../../../parts/Text'
import { Trouble } from '../../../parts/Trouble'
import { When } from '../../../parts/When'
import { Saved } from './Saved'

/** Shows where a run was saved, whether each is still what was sealed, and what the agent saved in them. */
export function Checkpoints({ runId }: { runId: string }) {
  const { saved, beside } = useSearch({ from: '/runs/$runId' })
  const asked = useInfiniteQuery(checkpoints(runId))
  const report = useQuery(askReport(runId))
  const found = asked.data?.pages.flatMap((page) => page.checkpoints) ?? []
  if (asked.error) return <Trouble error={asked.error} onRetry={() => void asked.refetch()} />
  if (asked.isSuccess && found.length === 0) return <Nothing />
  return (
    <div className="space-y-3 p-4">
      <ul aria-label="Checkpoints" className="divide-y divide-line rounded-lg border border-line text-sm">
        {found.map((one) => (
          <li key={one.id} className={one.id === saved ? 'bg-raised' : ''}>
            <Line of={one} report={report.data} isOpen={one.id === saved} />
            {one.id === saved && <Saved runId={runId} of={one} among={found} beside={beside} />}
          </li>
        ))}
      </ul>
      {asked.hasNextPage && <Button onClick={() => void asked.fetchNextPage()}>Show older ones</Button>}
    </div>
  )
}

function Line({ of, report, isOpen }: { of: Checkpoint; report: Report | undefined; isOpen: boolean }) {
  const go = useNavigate({ from: '/runs/$runId' })
  const toggle = () => void go({ search: { tab: 'checkpoints', ...(!isOpen && { saved: of.id }) }, replace: true })
  return (
    <div className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2">
      <Link from="/runs/$runId" to="." search={{ tab: 'timeline', line: of.seq ?? of.at }}>at event {of.at + 1}</Link>
      <span>{of.reason.replaceAll('_', ' ')}</span>
      {of.has_state ? <button type="button" aria-expanded={isOpen} onClick={toggle} className="text-accent underline">{isOpen ? 'hide the state' : 'show the state'}</button> : <span className="text-muted">without state</span>}
      <Seal of={of} report={report} />
      {of.suggested && <span className="basis-full text-muted">next: <Text>{of.suggested}</Text></span>}
      <span className="ml-auto flex items-center gap-3 text-muted"><Id length={18}>{of.id}</Id> <When at={of.created_at} /></span>
    </div>
  )
}

function Seal({ of, report }: { of: Checkpoint; report: Report | undefined }) {
  const seal = report?.checkpoints.find((one) => one.checkpoint === of.id)
  const [Icon, words, tone] = !report || !seal ? [Loader, 'checking', 'text-muted'] as const : seal.is_valid ? [ShieldCheck, 'is what was sealed', 'text-good'] as const : [ShieldAlert, seal.why ?? 'is not what was sealed', 'text-bad'] as const
  return <span className={`inline-flex items-center gap-1 ${tone}`}><Icon size={14} aria-hidden /> <Text>{words}</Text></span>
}

function Nothing() {
  return (
    <Empty title="It was not saved yet">
      <p>A run can be resumed without: its events are enough. A checkpoint saves the agent's own state as well:</p>
      <Snippet>{'run.checkpoint({"next": "mail"})'}</Snippet>
    </Empty>
  )
}
