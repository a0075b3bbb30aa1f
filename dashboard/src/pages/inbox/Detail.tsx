import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ShieldCheck } from 'lucide-react'
import { useCallback, useState } from 'react'
import { approval as ask, lastEvents, run as askRun, type ApprovalView } from '../../api/asks'
import { Changes } from '../../parts/Changes'
import { Id } from '../../parts/Copy'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Json } from '../../parts/Json'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { Countdown, When } from '../../parts/When'
import { Alike } from './Alike'
import { Bytes } from './Bytes'
import { Decide } from './Decide'
import { useExact, type Bound } from './exact'
import { History } from './History'
import { Lookers } from './Lookers'
import { TakeBack } from './TakeBack'
import { gathered } from './deciding'
import { LONG, ReadElsewhere } from './ReadElsewhere'

/** Shows one question completely: the exact arguments, what is different this time, who asks, and by which rule. */
export function Detail({ id, onDone }: { id: string; onDone: (said: string) => void }) {
  const { data: view, error, refetch } = useQuery(ask(id))
  const [seen, setSeen] = useState({ lines: 0, all: Number.POSITIVE_INFINITY })
  const [read, setRead] = useState<string | null>(null)
  const onSeen = useCallback((lines: number, all: number) => setSeen({ lines, all }), [])
  const { args, bound } = useExact(view)
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!view) return <p className="p-6 text-muted">Looking …</p>
  const hasSeenAll = (seen.lines >= seen.all || read === view.approval.digest) && (bound.is === 'same' || bound.is === 'unable')
  return (
    <article className="mx-auto max-w-4xl space-y-5 p-5" aria-label={`Approval ${view.approval.id}`}>
      <div className="space-y-1">
        <Heading of={view} />
        <Lookers of={view.approval} />
      </div>
      <Section title="Exact arguments" aside={<Digest of={view} bound={bound} />}>
        <Json key={view.approval.digest} value={args} label="Exact arguments" onSeen={onSeen} />
        <LookClosely at={view.look_closely} />
        {seen.all > LONG && view.approval.status === 'pending' && <ReadElsewhere key={view.approval.digest} of={view} lines={seen.all} onRead={() => setRead(view.approval.digest)} />}
        <Bytes name={view.approval.id} text={view.args_json} />
        <Mismatch bound={bound} />
      </Section>
      <Decide view={view} hasSeenAll={hasSeenAll} seen={seen} onDone={onDone} />
      <Alike to={view} isReady={hasSeenAll} />
      <TakeBack of={view.approval} />
      {view.changed && view.changed.length > 0 && (
        <Section title="What changed since this was asked before"><Changes of={view.changed} before="asked before" after="now" /></Section>
      )}
      {view.previous && view.previous !== view.approval.replaces && <SincePrevious of={view} />}
      {view.unusual && view.unusual.length > 0 && (
        <Section title="Unlike the last call of this tool that was approved"><Changes of={view.unusual} before="approved" after="now" /></Section>
      )}
      <Why of={view} />
      <History of={view} />
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
function Digest({ of: { approval }, bound }: { of: ApprovalView; bound: Bound }) {
  return (
    <span className="flex flex-wrap items-center justify-end gap-1 text-xs text-muted" title="A decision is bound to exactly these bytes">
      bound to <Id length={16}>{approval.digest}</Id>
      {bound.is === 'same' && <span className="flex items-center gap-1 text-good"><ShieldCheck size={14} aria-hidden /> computed here: the same</span>}
      {bound.is === 'unable' && <span>not computed here: that takes https</span>}
    </span>
  )
}

/** Names where a text may deceive the eye: look-alike letters, unseen characters, marks on digits. */
function LookClosely({ at }: { at: ApprovalView['look_closely'] }) {
  if (at.length === 0) return null
  return (
    <ul aria-label="Look closely" className="max-h-40 list-inside list-disc space-y-0.5 overflow-y-auto text-sm text-bad">
      {at.map(({ path, why }, index) => <li key={index} className="break-all"><Text>{path}</Text>: {why}</li>)}
    </ul>
  )
}

/** Warns whoever would approve something else than they see. */
function Mismatch({ bound }: { bound: Bound }) {
  if (bound.is !== 'other') return null
  return (
    <p role="alert" className="rounded-lg bg-bad-ground p-3 text-sm text-bad">
      The digest is not of what is shown here: the server, or something on the way, changed one of them. Nothing can be approved. Look at it with <code>indelible approvals show</code>, and find out who changed it: <code>indelible verify</code>.
    </p>
  )
}

function SincePrevious({ of: { previous, since_previous: changes } }: { of: ApprovalView }) {
  return (
    <Section title="What changed since the request before, of this tool in this run" aside={<Link to="/inbox" search={{ tab: 'all', approval: previous! }} className="text-sm">Show that one</Link>}>
      {changes === null ? <p className="text-sm text-muted">Its arguments are erased, so nobody can tell.</p> : changes.length === 0 ? <p className="text-sm text-muted">Nothing: it is the same call again.</p> : <Changes of={changes} before="the one before" after="now" />}
    </Section>
  )
}

function Why({ of: { approval, effect } }: { of: ApprovalView }) {
  const needs = approval.needs.map((need) => `${need.count} ${need.role ?? (need.count === 1 ? 'person' : 'people')}`).join(' and ')
  return (
    <Section title="Why this was asked">
      <Facts>
        <Fact name="Rule">{approval.rule ? <Text>{approval.rule}</Text> : 'none'}</Fact>
        <Fact name="Policy">{approval.policy ? <><Id>{approval.policy}</Id> <Link to="/tools" className="ml-2">Show the policy</Link></> : 'None is set: the tool, or whoever opened the ledger, wants a person to look'}</Fact>
        <Fact name="Asked by"><Text>{approval.requester.id}</Text> ({approval.requester.kind}, known by {approval.requester.via.replaceAll('_', ' ')}){approval.principal && <> for <Text>{approval.principal}</Text></>}</Fact>
        <Fact name="Needs"><Text>{needs || 'one person'}</Text>; {gathered(approval) ?? `${approval.lacking} to go`}</Fact>
        {approval.votes.map((vote) => (
          <Fact key={vote.by + vote.at} name={vote.is_approval ? 'Approved' : 'Denied'}>
            <Text>{vote.by}</Text>{vote.on_behalf_of && <> on behalf of <Text>{vote.on_behalf_of}</Text></>} <When at={vote.at} />
          </Fact>
        ))}
        {['denied', 'canceled'].includes(approval.status) && typeof effect.reason === 'string' && <Fact name="Reason"><Text>{effect.reason}</Text></Fact>}
        {approval.replaces && <Fact name="Replaces"><Id>{approval.replaces}</Id>{approval.edited_by && <>, edited by <Text>{approval.edited_by}</Text></>}</Fact>}
      </Facts>
    </Section>
  )
}

/** Shows what the run is for and what happened in it just before. */
function Around({ runId }: { runId: string }) {
  const { data: run } = useQuery(askRun(runId))
  const { data: page } = useQuery({ ...lastEvents(runId, run?.seq ?? null, 6), enabled: run !== undefined })
  return (
    <Section title="In its run">
      <Facts>
        <Fact name="Run"><Link to="/runs/$runId" params={{ runId }}><Text>{runId}</Text></Link></Fact>
        {run?.intent && <Fact name="Intent"><Text>{run.intent}</Text></Fact>}
        {run?.agent && <Fact name="Agent"><Text>{run.agent}</Text></Fact>}
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
