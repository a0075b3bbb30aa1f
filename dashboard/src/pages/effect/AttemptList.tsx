import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { eventOf } from '../../api/effects'
import { Section } from '../../parts/Fact'
import { Json } from '../../parts/Json'
import { Text } from '../../parts/Text'
import { length } from '../../parts/time'
import { When } from '../../parts/When'
import type { Attempt, Milestone } from './attempts'

/** Lists each entry into the handler, how it ended, and what its worker said when it was too late. */
export function AttemptList({ of, runId }: { of: readonly Attempt[]; runId: string }) {
  if (of.length === 0) return <Section level={2} title="Attempts"><p className="text-sm text-muted">Its handler was not entered.</p></Section>
  return (
    <Section level={2} title={`Attempts (${of.length})`}>
      <div className="overflow-x-auto rounded-lg border border-line" tabIndex={0} role="region" aria-label="Attempts">
        <table className="w-full text-left text-sm">
          <thead className="bg-raised text-muted">
            <tr>{['attempt', 'entered', 'by', 'ended', 'took', 'event'].map((name) => <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>)}</tr>
          </thead>
          <tbody>{of.map((one) => <Row key={one.began.seq} of={one} runId={runId} />)}</tbody>
        </table>
      </div>
      {of.flatMap((one) => one.late).map((late) => <Late key={late.seq} of={late} runId={runId} />)}
    </Section>
  )
}

function Row({ of: { number, began, ended }, runId }: { of: Attempt; runId: string }) {
  const took = ended ? Date.parse(ended.at) - Date.parse(began.at) : Number.NaN
  return (
    <tr className="border-t border-line">
      <th scope="row" className="px-3 py-1.5 font-medium">{number}</th>
      <td className="px-3 py-1.5">{began.at && <When at={began.at} />}</td>
      <td className="px-3 py-1.5"><Text>{began.by}</Text>{began.via && <span className="text-muted"> ({began.via.replaceAll('_', ' ')})</span>}</td>
      <td className="px-3 py-1.5">{ended ? <>{ended.type === 'tool_call_finished' ? ended.status : ended.type.replace('tool_call_', '').replaceAll('_', ' ')}</> : <span className="text-warn">not yet</span>}</td>
      <td className="px-3 py-1.5">{Number.isNaN(took) ? '' : length(took)}</td>
      <td className="px-3 py-1.5"><Link to="/runs/$runId" params={{ runId }} search={{ line: began.seq }}>{began.seq + 1}</Link></td>
    </tr>
  )
}

/** Shows what came after the lease was gone; it is kept, and changes nothing by itself. */
function Late({ of, runId }: { of: Milestone; runId: string }) {
  const { data } = useQuery(eventOf(runId, of.seq))
  return (
    <div className="space-y-2 rounded-lg bg-warn-ground p-3 text-sm">
      <p className="text-warn">Attempt {of.attempt} reported after its lease was gone{of.at && <>, <When at={of.at} /></>}. It is kept, and changes nothing by itself:</p>
      {data && <Json value={data.payload} label="What was reported too late" />}
    </div>
  )
}
