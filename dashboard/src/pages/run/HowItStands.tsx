import { Link } from '@tanstack/react-router'
import type { ReactNode } from 'react'
import type { EffectLine } from '../../api/runs'
import { Id } from '../../parts/Copy'
import { Section } from '../../parts/Fact'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import type { Standing } from './standing'

/** Is how many lines are shown of each list; the whole is on the page of the run. */
const SHOWN = 12

/** Shows how a run stands for whoever goes on with it. */
export function HowItStands({ of, next }: { of: Standing; next: string }) {
  const hasOpen = of.inDoubt.length + of.pending.length + of.delegations.length > 0
  return (
    <>
      <Section title={`Will not be repeated (${of.blocked.length + of.told.length})`}>
        {of.blocked.length + of.told.length === 0 ? <p className="text-muted">Nothing was done outside yet.</p> : (
          <>
            <p className="text-muted">Whoever asks for one of these again gets the recorded answer, and nothing happens outside. What is in doubt is refused until somebody settles it.</p>
            <Lines of={of.blocked} />
            {of.told.slice(0, SHOWN).map((key) => <p key={key}>told by hand: <Id length={24}>{key}</Id></p>)}
          </>
        )}
      </Section>
      <Section title="Unresolved">
        {!hasOpen && <p className="text-muted">Nothing.</p>}
        <Lines of={of.inDoubt} />
        <ul className="space-y-1">
          {of.pending.slice(0, SHOWN).map((one) => <Entry key={one.id}><Status is="requires_approval" /> <Link to="/inbox" search={{ approval: one.id }}><Text>{one.tool}</Text> waits for a person</Link></Entry>)}
          {of.delegations.slice(0, SHOWN).map((child) => <Entry key={child}>waits for the run <Link to="/runs/$runId" params={{ runId: child }}><Text>{child}</Text></Link></Entry>)}
        </ul>
      </Section>
      <Section title={`Done (${of.done.length})`}><Lines of={of.done} /></Section>
      <Section title="Next"><p><Text>{next}</Text></p></Section>
    </>
  )
}

function Lines({ of }: { of: readonly EffectLine[] }) {
  return (
    <ul className="space-y-1">
      {of.slice(0, SHOWN).map((line) => (
        <Entry key={line.id}>
          <Status is={line.status} /> <Link to="/effects/$effectId" params={{ effectId: line.id }}><Text>{line.tool}</Text></Link>
          <span className="text-muted">{line.side_effect.replaceAll('_', ' ')}</span>
        </Entry>
      ))}
      {of.length > SHOWN && <li className="text-muted">and {of.length - SHOWN} more</li>}
    </ul>
  )
}

function Entry({ children }: { children: ReactNode }) {
  return <li className="flex flex-wrap items-center gap-2">{children}</li>
}
