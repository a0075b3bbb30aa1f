import { Link, useParams, useSearch } from '@tanstack/react-router'
import { TriangleAlert } from 'lucide-react'
import { useMemo } from 'react'
import type { RunEvent, Story } from '../../api/runs'
import type { Run as RunShown } from '../../api/runs'
import { Empty } from '../../parts/Empty'
import { Tabs } from '../../parts/Tabs'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { useRun, useRunEvents } from './following'
import { Heading } from './Heading'
import { linesOf, troubleIn } from './lines'
import { TABS } from './search'
import { Approvals } from './tabs/Approvals'
import { Artifacts } from './tabs/Artifacts'
import { Checkpoints } from './tabs/Checkpoints'
import { Effects } from './tabs/Effects'
import { Events } from './tabs/Events'
import { Integrity } from './tabs/Integrity'
import { Packet } from './tabs/Packet'
import { Timeline } from './Timeline'

/** Shows one run: what it did and when, what it waits for, and whether its record holds. */
export function Run() {
  const { runId } = useParams({ from: '/runs/$runId' })
  const { tab = 'timeline' } = useSearch({ from: '/runs/$runId' })
  useTitle(`${runId} · Runs`)
  const { run, isUnstarted, error: runError, isPending } = useRun(runId)
  const { story, events, error, more } = useRunEvents(runId)
  if (isUnstarted && error) return <Empty isPage title="No run has this name">{runId.includes('/') ? 'A run with a slash in its name cannot be asked for over HTTP; the terminal shows it: indelible runs inspect. ' : 'It may be of another tenant, or not on this server. '}<Link to="/runs">All runs</Link></Empty>
  if (runError || error) return <Trouble error={runError ?? error} />
  if (isPending || !story) return <p className="p-6 text-muted">Looking …</p>
  const started = run?.status === 'open' ? null : run
  return (
    <div className="flex min-h-full flex-col md:h-full md:min-h-0">
      <Heading run={run} story={story} />
      <Banner run={started} story={story} events={events} />
      <Tabs label="Parts of this run" of={TABS} chosen={tab} />
      <div className="min-h-0 flex-1 overflow-auto max-md:overflow-visible">
        {tab === 'timeline' && <Timeline events={events} isOver={started !== null && !['active', 'blocked'].includes(started.status)} more={more} />}
        {tab === 'effects' && <Effects of={story} />}
        {tab === 'events' && <Events of={events} story={story} more={more} />}
        {tab === 'checkpoints' && <Checkpoints runId={runId} />}
        {tab === 'artifacts' && <Artifacts of={story} />}
        {tab === 'approvals' && <Approvals runId={runId} />}
        {tab === 'packet' && <Packet runId={runId} story={story} status={started?.status ?? null} />}
        {tab === 'integrity' && <Integrity runId={runId} count={story.events} />}
      </div>
    </div>
  )
}

/** Says what is wrong, and leads to the line where it went wrong. */
function Banner({ run, story, events }: { run: RunShown | null; story: Story; events: readonly RunEvent[] }) {
  const trouble = useMemo(() => (run ? troubleIn(linesOf(events), run.status) : null), [events, run])
  if (story.broken) {
    return (
      <Alarm>
        <strong>The record of this run is broken: <Text>{story.broken}</Text>.</strong> Nothing after it is believed. <Link from="/runs/$runId" to="." search={{ tab: 'integrity' }}>Verify it here</Link>
      </Alarm>
    )
  }
  if (run?.handover) {
    return (
      <Alarm>
        <strong>Another ledger goes on with this run: <Text>{run.handover.to}</Text>.</strong> Its calls are refused here. If it was never imported there, a person takes it back: indelible runs take-back.
      </Alarm>
    )
  }
  if (!trouble || !run) return null
  return (
    <Alarm>
      <strong>{WORDS[run.status] ?? 'Something went wrong'}</strong>
      {trouble.words && <>: <Text>{trouble.words}</Text></>} <Link from="/runs/$runId" to="." search={{ tab: 'timeline', line: trouble.seq }} className="text-inherit">Show the line</Link>
    </Alarm>
  )
}

const WORDS: Readonly<Record<string, string>> = {
  failed: 'It failed',
  blocked: 'It does not go on by itself',
  manual_review_required: 'A person has to look at it',
}

function Alarm({ children }: { children: React.ReactNode }) {
  return (
    <p role="alert" className="mx-4 mb-2 flex items-start gap-2 rounded-lg bg-bad-ground px-3 py-2 text-sm text-bad">
      <TriangleAlert size={16} aria-hidden className="mt-0.5 shrink-0" />
      <span className="min-w-0 break-words">{children}</span>
    </p>
  )
}
