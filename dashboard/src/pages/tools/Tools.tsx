import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { api, told } from '../../api/client'
import { stats } from '../../api/figures'
import { Acting, Asked, AskedLine, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Id } from '../../parts/Copy'
import { Empty, Snippet } from '../../parts/Empty'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Json } from '../../parts/Json'
import { forFilter } from '../../parts/quoting'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'

/** Shows what tools are called and how they are treated, and the rules that say so. */
export function Tools() {
  return (
    <div className="mx-auto max-w-5xl space-y-8 p-5">
      <h1 className="text-xl font-semibold">Tools and policy</h1>
      <Called />
      <Policy />
      <Trial />
    </div>
  )
}

function Called() {
  const { data, error, refetch } = useQuery(stats({ metric: 'latency', by: 'tool', since: '7d' }))
  const repeats = useQuery(stats({ metric: 'replays', by: 'tool', since: '7d' }))
  const answered = new Map(repeats.data?.figures.map((one) => [one.group, one.count ?? 0]))
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!data) return null
  if (data.figures.length === 0) return <Empty title="No tool was called in the last seven days" />
  return (
    <Section level={2} title="Called in the last seven days">
      <div className="overflow-x-auto rounded-lg border border-line">
        <table className="w-full text-left text-sm">
          <thead className="bg-raised text-muted">
            <tr>{['tool', 'calls', 'repeats answered', '95 % within'].map((name) => <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>)}</tr>
          </thead>
          <tbody>
            {data.figures.map((one) => (
              <tr key={one.group} className="border-t border-line">
                <th scope="row" className="px-3 py-1.5 font-normal"><Link to="/effects" search={{ q: `tool:${forFilter(one.group ?? '')}` } as never}><Text>{one.group ?? ''}</Text></Link></th>
                <td className="px-3 py-1.5">{one.count?.toLocaleString('en')}</td>
                <td className="px-3 py-1.5">{(answered.get(one.group) ?? 0).toLocaleString('en')}</td>
                <td className="px-3 py-1.5">{one.p95_s === null ? '' : `${one.p95_s.toFixed(3)} s`}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </Section>
  )
}

const policy = { queryKey: ['policy'], queryFn: () => told(api.GET('/v1/policy')) }

function Policy() {
  const { data, error, refetch } = useQuery(policy)
  const { open, show, close } = useOpen<'edit'>()
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!data) return null
  return (
    <Section level={2} title="Policy in force" aside={<Button onClick={show('edit')}>{data.content ? 'Change …' : 'Write one …'}</Button>}>
      {data.content && data.version ? (
        <>
          <p className="flex items-center gap-1 text-xs text-muted">version <Id length={16}>{data.version}</Id></p>
          <Json value={data.content} label="Policy in force" />
        </>
      ) : (
        <Empty title="There is no policy">Tools say themselves what has to be approved; a policy says it for all of them, and what nobody may do or spend.</Empty>
      )}
      {open && <Edit of={data} onClose={close} />}
    </Section>
  )
}

type Kept = { version: string | null; content: unknown }

function Edit({ of, onClose }: { of: Kept; onClose: () => void }) {
  const questions = useQueryClient()
  const [text, setText] = useState(JSON.stringify(of.content ?? { rules: [] }, null, 2))
  const [reason, setReason] = useState('')
  const content = read(text)
  const apply = async () => {
    // Whoever changed it meanwhile is not overwritten: the server compares with what was seen here.
    await told(api.PUT('/v1/policy', { params: { header: { 'if-match': `"${of.version ?? ''}"` } }, body: { content: content as Record<string, never>, reason } }))
    await questions.invalidateQueries({ queryKey: ['policy'] })
    onClose()
  }
  return (
    <Acting title="Put a policy in force" verb="Put it in force" needs={[]} wide isReady={content !== null && reason.trim() !== ''} act={apply} onClose={onClose}>
      <p>It holds for every process of this tenant, from now on. Open approvals that it no longer fits are asked about again.</p>
      <Asked label="Rules, as JSON" value={text} onChange={setText} rows={16} isCode isFirst />
      {content === null && <p className="text-bad">This is no JSON object yet.</p>}
      <AskedLine label="Why" value={reason} onChange={setReason} />
    </Acting>
  )
}

function read(text: string): object | null {
  try {
    const found: unknown = JSON.parse(text)
    return typeof found === 'object' && found !== null && !Array.isArray(found) ? found : null
  } catch {
    return null
  }
}

/** Tells what the policy would say of a call; nothing of it happens. */
function Trial() {
  const [tool, setTool] = useState('')
  const [text, setText] = useState('{}')
  const [asked, setAsked] = useState<{ tool: string; args: Record<string, never> } | null>(null)
  const verdict = useQuery({ queryKey: ['policy', 'trial', asked], queryFn: () => told(api.POST('/v1/policy/evaluate', { body: asked! as never })), enabled: asked !== null, retry: false })
  const args = read(text)
  return (
    <Section level={2} title="What would it say?">
      <form
        className="space-y-3 text-sm"
        onSubmit={(event) => {
          event.preventDefault()
          if (tool.trim() && args) setAsked({ tool: tool.trim(), args: args as Record<string, never> })
        }}
      >
        <AskedLine label="Tool" value={tool} onChange={setTool} />
        <Asked label="Arguments, as JSON" value={text} onChange={setText} rows={4} isCode />
        <Button type="submit" look="main" disabled={!tool.trim() || args === null}>Judge it</Button>
      </form>
      <div aria-live="polite">
        {verdict.error && <Trouble error={verdict.error} />}
        {verdict.data && (
          <Facts>
            <Fact name="It says"><strong>{verdict.data.decision}</strong></Fact>
            <Fact name="By the rule"><Text>{verdict.data.rule}</Text></Fact>
            {verdict.data.why && <Fact name="Because"><Text>{verdict.data.why}</Text></Fact>}
            {verdict.data.question && <Fact name="Asks"><Text>{verdict.data.question.needs.map((need) => `${need.count} ${need.role ?? 'people'}`).join(' and ')}</Text></Fact>}
            {verdict.data.charges.map((charge) => <Fact key={charge.budget} name="Takes"><Text>{`${charge.amount} of ${charge.limit} (${charge.budget})`}</Text></Fact>)}
          </Facts>
        )}
      </div>
      <Snippet>{`indelible policy explain --tool ${tool || 'TOOL'} --args '${text.replaceAll("'", "'\\''")}'`}</Snippet>
    </Section>
  )
}
