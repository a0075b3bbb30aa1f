import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { ApprovalView } from '../../api/asks'
import { api, told } from '../../api/client'
import { Copy } from '../../parts/Copy'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'

/** Shows what became of this call so far: every question about it, and how often it was entered. */
export function History({ of: { approval, effect } }: { of: ApprovalView }) {
  const { data } = useQuery({
    queryKey: ['approvals', 'about', effect.id],
    queryFn: () => told(api.GET('/v1/approvals', { params: { query: { run_id: approval.run_id, q: `effect:${effect.id}`, limit: 20 } } })),
  })
  const others = data?.approvals.filter((one) => one.id !== approval.id) ?? []
  return (
    <Section title="This call so far">
      <Facts>
        <Fact name="Key"><span className="inline-flex items-center gap-1 font-mono text-[0.92em]">{effect.key.slice(0, 16)}… <Copy text={effect.key} label="Copy the key" /></span></Fact>
        <Fact name="Call">
          <Link to="/effects/$effectId" params={{ effectId: effect.id }}>{effect.status.replaceAll('_', ' ')}</Link>, {effect.attempt === 0 ? 'never entered' : effect.attempt === 1 ? 'entered once' : `entered ${effect.attempt} times`}
        </Fact>
      </Facts>
      {others.length > 0 && (
        <ul className="space-y-1 text-sm" aria-label="Other questions about this call">
          {others.map((one) => (
            <li key={one.id} className="flex flex-wrap items-center gap-x-3">
              <Link to="/inbox" search={{ tab: 'all', approval: one.id }} className="font-mono text-[0.92em]"><Text>{one.id}</Text></Link>
              <Status is={one.status} />
              {one.votes.length > 0 && <span className="text-muted">by <Text>{one.votes.map((vote) => vote.by).join(', ')}</Text></span>}
              <span className="ml-auto text-muted">asked <When at={one.asked_at} /></span>
            </li>
          ))}
        </ul>
      )}
    </Section>
  )
}
