import { Link } from '@tanstack/react-router'
import { Ban, Eraser, FileBadge, GitCompare, GitFork, Play, ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import { useMay } from '../../api/may'
import type { Run, Story } from '../../api/runs'
import { useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Copy } from '../../parts/Copy'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { many } from '../../parts/time'
import { When } from '../../parts/When'
import { Erasing } from '../erasing/Erasing'
import { aRun } from '../erasing/wanted'
import { Cancel } from './Cancel'
import { Compare } from './Compare'
import { DelegatedOnDemand } from './Delegated'
import { Evidence } from './Evidence'
import { Fork } from './Fork'
import { Resume } from './Resume'

/** Says which run it is, what it is for, how it stands, and what can be done. */
export function Heading({ run, story }: { run: Run | null; story: Story }) {
  const id = story.run_id
  const started = run?.status === 'open' ? null : run
  return (
    <header className="space-y-1.5 px-4 py-3">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="flex min-w-0 items-center text-xl font-semibold break-all">
          <Text>{id}</Text>
          <Copy text={id} label="Copy the run's name" />
        </h1>
        {run && <Status is={run.status} />}
        <Actions run={started} story={story} />
      </div>
      {started ? <About run={started} story={story} /> : <p className="text-sm text-muted">This run was never started: its id only groups calls, {many(story.events, 'event')} so far. Its agent and intent are unknown, and there is nothing to resume.</p>}
      {started && <DelegatedOnDemand by={started.id} />}
    </header>
  )
}

function About({ run, story }: { run: Run; story: Story }) {
  return (
    <>
      {run.intent && <Intent>{run.intent}</Intent>}
      {run.unread && <p className="text-sm text-bad">Its intent and permissions were {run.unread}.</p>}
      <p className="flex flex-wrap gap-x-3 text-sm text-muted">
        <span>by <Text>{run.agent}</Text></span>
        <span>{many(story.events, 'event')}</span>
        {story.current_step && <span>step <Text>{story.current_step}</Text></span>}
        <span>begun <When at={run.created_at} /></span>
        {run.parent && <span>for <Link to="/runs/$runId" params={{ runId: run.parent }}><Text>{run.parent}</Text></Link></span>}
        {run.fork && <span>{run.fork.is_dry ? 'dry run, forked' : 'forked'} from <Link to="/runs/$runId" params={{ runId: run.fork.run_id }} search={{ line: run.fork.at }}><Text>{run.fork.run_id}</Text>, event {run.fork.at + 1}</Link>: what was done there up to then replays</span>}
        {story.open_delegations.map((child) => <span key={child}>waits for <Link to="/runs/$runId" params={{ runId: child }}><Text>{child}</Text></Link></span>)}
      </p>
    </>
  )
}

/** Is about how much of an intent fits into two lines. */
const TWO_LINES = 200

function Intent({ children }: { children: string }) {
  const [isWhole, setWhole] = useState(false)
  return (
    <div className="max-w-4xl">
      <p className={`break-words ${isWhole ? 'max-h-[40vh] overflow-auto' : 'line-clamp-2'}`}><Text>{children}</Text></p>
      {children.length > TWO_LINES && <button type="button" aria-expanded={isWhole} onClick={() => setWhole(!isWhole)} className="text-sm text-accent underline">{isWhole ? 'less' : 'all of it'}</button>}
    </div>
  )
}

type Act = 'resume' | 'fork' | 'cancel' | 'evidence' | 'erase' | 'compare'

function Actions({ run, story }: { run: Run | null; story: Story }) {
  const { open, show, close } = useOpen<Act>()
  const isAdmin = useMay([])
  const isOver = run === null || run.status === 'completed' || run.status === 'canceled'
  return (
    <div className="print:hidden ml-auto flex flex-wrap gap-1.5">
      {run && !isOver && <Button onClick={show('resume')}><Play size={15} aria-hidden /> Resume …</Button>}
      {run && <Button onClick={show('fork')}><GitFork size={15} aria-hidden /> Fork …</Button>}
      {run && !isOver && <Button look="bad" onClick={show('cancel')}><Ban size={15} aria-hidden /> Cancel …</Button>}
      <Link from="/runs/$runId" to="." search={{ tab: 'integrity' }} className="inline-flex items-center gap-1.5 rounded-md border border-line px-3 py-1.5 text-sm font-medium text-ink no-underline hover:bg-raised"><ShieldCheck size={15} aria-hidden /> Verify</Link>
      {run && <Button onClick={show('compare')}><GitCompare size={15} aria-hidden /> Compare …</Button>}
      <Button onClick={show('evidence')}><FileBadge size={15} aria-hidden /> Evidence …</Button>
      {isAdmin && <Button look="bad" onClick={show('erase')}><Eraser size={15} aria-hidden /> Erase …</Button>}
      {run && open === 'resume' && <Resume run={run} story={story} onClose={close} />}
      {run && open === 'fork' && <Fork run={run} story={story} onClose={close} />}
      {run && open === 'cancel' && <Cancel run={run} onClose={close} />}
      {run && open === 'compare' && <Compare run={run} onClose={close} />}
      {open === 'erase' && <Erasing of={aRun(story.run_id)} onClose={close} />}
      {open === 'evidence' && <Evidence runId={story.run_id} count={story.events} onClose={close} />}
    </div>
  )
}
