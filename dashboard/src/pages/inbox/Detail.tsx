import { useQuery } from '@tanstack/react-query'
import { useCallback, useMemo, useState } from 'react'
import { approval as ask, lastEvents, run as askRun, type ApprovalView } from '../../api/asks'
import { Changes } from '../../parts/Changes'
import { Id } from '../../parts/Copy'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Json } from '../../parts/Json'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { mixesScripts } from '../../parts/visible'
import { Countdown, When } from '../../parts/When'
import { Decide } from './Decide'
import { LONG, ReadElsewhere } from './ReadElsewhere'

/** Shows one question completely: the exact arguments, what is different this time, who asks, and by which rule. */
export function Detail({ id, onDone }: { id: string; onDone: () => void }) {
  const { data: view, error, refetch } = useQuery(ask(id))
  const [seen, setSeen] = useState({ lines: 0, all: Number.POSITIVE_INFINITY })
  const [read, setRead] = useState<string | null>(null)
  const onSeen = useCallback((lines: number, all: number) => setSeen({ lines, all }), [])
  const isMixed = useMemo(() => mixesScripts(JSON.stringify(view?.args ?? null)), [view?.args])
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!view) return <p className="p-6 text-muted">Looking …</p>
  return (
    <article className="mx-auto max-w-4xl space-y-5 p-5" aria-label={`Approval ${view.approval.id}`}>
      <Heading of={view} />
      <Section title="Exact arguments" aside={<Digest of={view} />}>
        <Json key={view.approval.digest} value={view.args} label="Exact arguments" onSeen={onSeen} />
        {isMixed && <p className="text-sm text-bad">Letters of different alphabets stand in one word here: it may not say what it seems to say.</p>}
        {seen.all > LONG && view.approval.status === 'pending' && <ReadElsewhere key={view.approval.digest} of={view} lines={seen.all} onRead={() => setRead(view.approval.digest)} />}
      </Section>
      <Decide view={view} hasSeenAll={seen.lines >= seen.all || read === view.approval.digest} seen={seen} onDone={onDone} />
      {view.changed && view.changed.length > 0 && (
        <Section title="What changed since the last request of this tool"><Changes of={view.changed} before="last time" after="now" /></Section>
      )}
      {view.unusual && view.unusual.length > 0 && (
        <Section title="Unusual"><Changes of={view.unusual} before="usually" after="now" /></Section>
      )}
      <Why of={view} />
      <Around runId={view.approval.run_id} />
    </article>
  )
}

function Heading({ of: { approval } }: { of: ApprovalView }) {
  return (
    <header className="flex flex-wrap items-center gap-x-3 gap-y-1">
      <h2 className="text-xl font-semibold"><Text>{approval.tool}</Text></h2>
      <Status is={approval.status} />
      <span className="rounded-full bg-sunken px-2 py-0.5 text-xs">{approval.side_effect.replaceAll('_', ' ')}</span>
      <span className="ml-auto text-sm text-muted">
        asked <When at={approval.asked_at} />
        {approval.status === 'pending' && <> · <Countdown to={approval.expires_at} /></>}
      </span>
    </header>
  )
}

/** Shows the digest that a decision is bound to. */
function Digest({ of: { approval } }: { of: ApprovalView }) {
  return (
    <span className="flex items-center gap-1 text-xs text-muted" title="A decision is bound to exactly these bytes">
      bound to <Id length={16}>{approval.digest}</Id>
    </span>
  )
}

function Why({ of: { approval } }: { of: ApprovalView }) {
  const needs = approval.needs.map((need) => `${need.count} ${need.role ?? (need.count === 1 ? 'person' : 'people')}`).join(' and ')
  return (
    <Section title="Why this was asked">
      <Facts>
        <Fact name="Rule"><Text>{approval.rule}</Text></Fact>
        <Fact name="Policy"><Id>{approval.policy}</Id></Fact>
        <Fact name="Asked by"><Text>{approval.requester.id}</Text> ({approval.requester.kind}, known by {approval.requester.via.replaceAll('_', ' ')}){approval.principal && <> for <Text>{approval.principal}</Text></>}</Fact>
        <Fact name="Needs"><Text>{needs || 'one person'}</Text>; {approval.lacking} to go</Fact>
        {approval.votes.map((vote) => (
          <Fact key={vote.by + vote.at} name={vote.is_approval ? 'Approved' : 'Denied'}>
            <Text>{vote.by}</Text>{vote.on_behalf_of && <> on behalf of <Text>{vote.on_behalf_of}</Text></>} <When at={vote.at} />
          </Fact>
        ))}
        {approval.replaces && <Fact name="Replaces"><Id>{approval.replaces}</Id>{approval.edited_by && <>, edited by <Text>{approval.edited_by}</Text></>}</Fact>}
      </Facts>
    </Section>
  )
}

/** Shows what the run is for and what happened in it just before. */
function Around({ runId }: { runId: string }) {
  const { data: run } = useQuery(askRun(runId))
  const { data: page } = useQuery({ ...lastEvents(runId, run?.seq ?? null, 6), enabled: run !== undefined })
  if (!run) return null
  return (
    <Section title="In its run">
      <Facts>
        <Fact name="Run"><Id length={30}>{run.id}</Id></Fact>
        {run.intent && <Fact name="Intent"><Text>{run.intent}</Text></Fact>}
        {run.agent && <Fact name="Agent"><Text>{run.agent}</Text></Fact>}
      </Facts>
      <ol className="space-y-1 text-sm">
        {page?.events.map((event) => (
          <li key={event.id} className="flex gap-3">
            <span className="w-8 text-right text-muted">{event.seq + 1}</span>
            <span><Text>{event.type.replaceAll('_', ' ')}</Text></span>
            {event.tool && <span className="text-muted"><Text>{event.tool}</Text></span>}
            <span className="ml-auto text-muted"><When at={event.at} /></span>
          </li>
        ))}
      </ol>
    </Section>
  )
}
