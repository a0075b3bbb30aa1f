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
import { length } from '../../parts/time'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { rulesOf, type Rule } from './rules'

/** Shows what tools are called and how they are treated, and the rules that say so. */
export function Tools() {
  useTitle('Tools and policy')
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
  if (data.figures.length === 0) return <Empty title="No tool was called in the last seven days">A tool is listed here after its first call; <Link to="/effects">all effects</Link> has older ones.</Empty>
  return (
    <Section level={2} title="Called in the last seven days">
      <div className="overflow-x-auto rounded-lg border border-line">
        <table className="w-full text-left text-sm">
          <thead className="bg-raised text-muted">
            <tr>{['tool', 'calls', 'repeats answered by servers', '95 % within'].map((name, index) => <th key={name} scope="col" className={`px-3 py-1.5 font-medium ${index > 0 ? 'text-right' : ''}`}>{name}</th>)}</tr>
          </thead>
          <tbody>
            {data.figures.map((one) => (
              <tr key={one.group} className="border-t border-line">
                <th scope="row" className="px-3 py-1.5 font-normal"><Link to="/effects" search={{ q: `tool:${forFilter(one.group ?? '')}` } as never}><Text>{one.group ?? ''}</Text></Link></th>
                <td className="px-3 py-1.5 text-right">{one.count?.toLocaleString('en')}</td>
                <td className="px-3 py-1.5 text-right">{(answered.get(one.group) ?? 0).toLocaleString('en')}</td>
                <td className="px-3 py-1.5 text-right">{one.p95_s === null ? '' : length(one.p95_s * 1000)}</td>
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
          <Rules of={rulesOf(data.content)} />
          <details className="text-sm">
            <summary className="w-fit cursor-pointer text-muted">All of it, as JSON: people, budgets and defaults as well</summary>
            <div className="mt-2"><Json value={data.content} label="Policy in force" /></div>
          </details>
        </>
      ) : (
        <Empty title="There is no policy">Tools say themselves what has to be approved; a policy says it for all of them, and what nobody may do or spend.</Empty>
      )}
      {open && <Edit of={data} onClose={close} />}
    </Section>
  )
}

const TONES: Readonly<Record<string, string>> = { allow: 'text-good', ask: 'text-wait', refuse: 'text-bad' }

/** Lists the rules as they are asked, from the first to the last. */
function Rules({ of }: { of: readonly Rule[] }) {
  if (of.length === 0) return <p className="text-sm text-muted">It has no rules; its defaults decide.</p>
  return (
    <div className="overflow-x-auto rounded-lg border border-line" tabIndex={0} role="region" aria-label="Rules">
      <table className="w-full text-left text-sm">
        <thead className="bg-raised text-muted"><tr>{['rule', 'when', 'then', 'why'].map((name) => <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>)}</tr></thead>
        <tbody>
          {of.map((rule) => (
            <tr key={rule.name} className="border-t border-line align-top">
              <th scope="row" className="px-3 py-1.5 font-medium"><Text>{rule.name}</Text></th>
              <td className="px-3 py-1.5 break-words"><Text>{rule.when}</Text></td>
              <td className="px-3 py-1.5"><strong className={TONES[rule.then] ?? ''}>{rule.then}</strong>{rule.asks && <span className="text-muted"> <Text>{rule.asks}</Text></span>}</td>
              <td className="px-3 py-1.5 text-muted"><Text>{rule.why}</Text></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
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
