import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link, useParams } from '@tanstack/react-router'
import type { Effect as Shown } from '../../api/asks'
import { Problem } from '../../api/client'
import { answeredBy, effect as askEffect, eventsAbout } from '../../api/effects'
import { Id } from '../../parts/Copy'
import { Empty } from '../../parts/Empty'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Json } from '../../parts/Json'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { When } from '../../parts/When'
import { Actions } from './Actions'
import { AttemptList } from './AttemptList'
import { attemptsIn, milestoneOf } from './attempts'
import { Key } from './Key'
import { Lifecycle } from './Lifecycle'

/** Shows one tool call and its fate: what was asked, what came of it, how often it was tried, and what makes it the same. */
export function Effect() {
  const { effectId } = useParams({ from: '/effects/$effectId' })
  const { data: effect, error, refetch } = useQuery(askEffect(effectId))
  useTitle(`${effect?.tool ?? effectId} · Effects`)
  const about = useInfiniteQuery({ ...eventsAbout(effect?.run_id ?? '', effectId), enabled: effect !== undefined })
  const milestones = (about.data?.pages.flatMap((page) => page.events) ?? []).map(milestoneOf)
  if (error instanceof Problem && error.status === 404) return <Empty isPage title="No effect has this id">It may be of another tenant, or not on this server: <Link to="/effects">all effects</Link>.</Empty>
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!effect) return <p className="p-6 text-muted">Looking …</p>
  return (
    <article className="mx-auto max-w-5xl space-y-6 p-5">
      <Heading of={effect} />
      <Lifecycle of={effect} milestones={milestones} />
      <Outcome of={effect} />
      <Section level={2} title="Arguments">
        {effect.erased.includes('args') ? <p className="text-sm text-muted">They were erased. The record still proves that they were there.</p> : <Json value={effect.args} label="Arguments" />}
      </Section>
      {about.error ? <Trouble error={about.error} /> : <AttemptList of={attemptsIn(milestones)} runId={effect.run_id} />}
      <Key of={effect} />
      <Replays of={effect} />
    </article>
  )
}

const AFTER_A_CRASH: Record<Shown['on_crash'], string> = {
  hold: 'it is held until a person or a probe settles it',
  resend: 'it is sent again with the same key, while the provider remembers the key',
  retry: 'it is tried again: its tool says that this is safe',
}

function Heading({ of }: { of: Shown }) {
  return (
    <header className="space-y-2">
      <div className="flex flex-wrap items-center gap-x-3 gap-y-1">
        <h1 className="text-xl font-semibold break-all"><Text>{of.tool}</Text></h1>
        <Status is={of.status} />
        {of.compensation && <span className="rounded-full bg-warn-ground px-2 py-0.5 text-xs text-warn">compensated</span>}
        <span className="rounded-full bg-sunken px-2 py-0.5 text-xs">{of.side_effect.replaceAll('_', ' ')}</span>
        <Actions of={of} />
      </div>
      <Facts>
        <Fact name="Effect"><Id length={40}>{of.id}</Id></Fact>
        <Fact name="Run"><Link to="/runs/$runId" params={{ runId: of.run_id }}><Text>{of.run_id}</Text></Link></Fact>
        {of.compensation && <Fact name="Compensation"><Link to="/effects/$effectId" params={{ effectId: of.compensation.id }}><code>{of.compensation.id}</code></Link> ({of.compensation.status.replaceAll('_', ' ')}): this call no longer stands, and repeats of it are refused</Fact>}
        {of.approval_id && <Fact name="Approval"><Link to="/inbox" search={{ tab: 'all', approval: of.approval_id }}><code>{of.approval_id}</code></Link></Fact>}
        <Fact name="After a crash">{AFTER_A_CRASH[of.on_crash]}</Fact>
        <Fact name="Opened"><When at={of.created_at} />, last moved <When at={of.updated_at} /></Fact>
        {of.lease_until && of.status === 'processing' && <Fact name="Lease"><When at={of.lease_until} />: without a word from its worker until then, it is in doubt</Fact>}
      </Facts>
    </header>
  )
}

/** Shows what came of it, or why it stands where it stands. */
function Outcome({ of }: { of: Shown }) {
  if (of.erased.includes('detail')) return <Section level={2} title="What came of it"><p className="text-sm text-muted">It was erased.</p></Section>
  if (of.outcome?.status === 'succeeded') return <Section level={2} title="Result"><Json value={of.outcome.value} label="Result" /></Section>
  if (of.outcome?.status === 'failed') {
    return (
      <Section level={2} title="Error">
        <p className="rounded-lg bg-bad-ground p-3 text-sm break-words whitespace-pre-wrap text-bad"><strong><Text>{of.outcome.error_type ?? 'Error'}</Text></strong>: <Text>{of.outcome.error ?? 'nobody said what'}</Text></p>
      </Section>
    )
  }
  if (of.reason === null || of.reason === undefined) return null
  return (
    <Section level={2} title={of.status === 'in_doubt' ? 'Why it is in doubt' : 'Reason'}>
      {typeof of.reason === 'string' ? <p className="rounded-lg bg-sunken p-3 text-sm break-words whitespace-pre-wrap"><Text>{of.reason}</Text></p> : <Json value={of.reason} label="Reason" />}
    </Section>
  )
}

function Replays({ of }: { of: Shown }) {
  const { data: callers, error } = useQuery({ ...answeredBy(of.id), enabled: of.outcome !== null })
  if (of.outcome === null) {
    return (
      <Section level={2} title="Who got the recorded answer">
        <p className="text-sm text-muted">{of.status === 'denied' || of.status === 'canceled' ? 'Nobody, for it was not executed: whoever asks for this call again is told so, and why.' : 'There is no answer yet. As soon as there is one, whoever asks for this call again gets it, and nothing happens outside.'}</p>
      </Section>
    )
  }
  return (
    <Section level={2} title="Who got the recorded answer">
      {error && <Trouble error={error} />}
      {callers && callers.length > 0 && (
        <table className="text-sm">
          <thead><tr className="text-left text-muted"><th scope="col" className="pr-6 font-normal">who</th><th scope="col" className="pr-6 font-normal">in run</th><th scope="col" className="pr-6 text-right font-normal">times</th><th scope="col" className="font-normal">last</th></tr></thead>
          <tbody>
            {callers.map((one) => (
              <tr key={`${one.kind} ${one.actor} ${one.run_id}`}>
                <td className="pr-6"><Text>{one.actor}</Text> <span className="text-muted">({one.kind})</span></td>
                <td className="pr-6"><Link to="/runs/$runId" params={{ runId: one.run_id }}><Text>{one.run_id}</Text></Link></td>
                <td className="pr-6 text-right">{one.count.toLocaleString('en')}</td>
                <td><When at={one.last_at} /></td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
      <p className="text-sm text-muted">
        {callers?.length === 0 && 'Nobody asked a server for this call again. '}
        Whoever asks again gets the answer above, and nothing happens outside. Servers note whom they answered; a program that opens the database itself is not listed.
      </p>
    </Section>
  )
}
