import { useQuery } from '@tanstack/react-query'
import type { Effect } from '../../api/asks'
import { me } from '../../api/asks'
import { Id } from '../../parts/Copy'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Text } from '../../parts/Text'
import { isDigestOf, keyOf, type KeyOf } from '../../record/identity'

/** Shows what makes another call the same as this one, as computed here from the arguments. */
export function Key({ of }: { of: Effect }) {
  const tenant = useQuery(me).data?.tenant
  const { data } = useQuery({
    queryKey: ['identity', of.id, of.digest, tenant],
    queryFn: async () => ({ made: await keyOf(of, tenant!), isDigest: await isDigestOf(of, tenant!) }),
    enabled: tenant !== undefined && !of.erased.includes('args'),
    staleTime: Number.POSITIVE_INFINITY,
  })
  return (
    <Section level={2} title="What makes a call the same">
      <Facts>
        <Fact name="Key"><Id length={64}>{of.key}</Id><span className="block text-muted">Search for it at the provider: it is the idempotency key that the handler was given.</span></Fact>
        <Fact name="Made of">
          the tenant{tenant !== undefined && <> <code><Text>{tenant}</Text></code></>}, the scope <code><Text>{of.scope}</Text></code>{of.scope === of.run_id ? ' (the run)' : ''}, the tool, and {data ? <Made of={data.made} args={of.args} callId={of.call_id} /> : of.erased.includes('args') ? 'arguments that were erased' : 'its arguments'}
        </Fact>
        <Fact name="Digest">
          <Id length={64}>{of.digest}</Id>
          <span className="block text-muted">{data?.isDigest ? 'It is of exactly the arguments above, as computed in this browser. An approval is bound to it.' : 'It is of the exact call; an approval is bound to it.'}</span>
        </Fact>
        {of.call_id && <Fact name="Call id"><Text>{of.call_id}</Text></Fact>}
      </Facts>
    </Section>
  )
}

function Made({ of, args, callId }: { of: KeyOf; args: unknown; callId: string | null }) {
  if (of.is === 'unknown') return <>fields that the arguments alone do not tell, such as a resource that the tool named</>
  const call = of.withCall && callId !== null && <>, and the framework's id of the call: the same arguments with another id are an intended repeat</>
  if (of.is === 'args') return <>all arguments{call}</>
  return (
    <>
      {of.fields.map((path, index) => (
        <span key={path}>{index > 0 && ', '}<code className="font-semibold"><Text>{path}</Text></code></span>
      ))}
      {of.fields.length < Object.keys((args ?? {}) as object).length && ' alone; the other arguments do not matter for it'}
      {call}
    </>
  )
}
