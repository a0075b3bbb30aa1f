import { useMutation, useQuery } from '@tanstack/react-query'
import { ShieldAlert, ShieldCheck, ShieldQuestionMark } from 'lucide-react'
import { useEffect, useState, type ReactNode } from 'react'
import { api, told } from '../../../api/client'
import { report as askReport } from '../../../api/runs'
import { Button } from '../../../parts/Button'
import { Id } from '../../../parts/Copy'
import { Fact, Facts, Section } from '../../../parts/Fact'
import { Text } from '../../../parts/Text'
import { Trouble } from '../../../parts/Trouble'
import { RunChain, type Bad } from '../../../record/chain'
import { check } from '../../../record/checking'
import { proveIncluded, type Proven } from '../../../record/inclusion'

const PAGE = 1000

type Found = { readonly bad: Bad | null; readonly count: number; readonly head: string; readonly proven: (Proven & { readonly seq: number }) | null }

/** Verifies one run here, from its events to the signed head of the journal; and says what the server finds besides. */
export function Integrity({ runId, count }: { runId: string; count: number }) {
  const [done, setDone] = useState(0)
  const verifying = useMutation({ mutationFn: () => verify(runId, setDone) })
  const { mutate } = verifying
  useEffect(() => mutate(), [mutate, runId])
  const report = useQuery(askReport(runId))
  return (
    <div className="max-w-4xl space-y-6 p-4 text-sm">
      <div role="status" className="space-y-6">
        {verifying.isPending && <p className="text-muted">Verifying here: {done.toLocaleString('en')} of {count.toLocaleString('en')} events …</p>}
        {verifying.error && <Trouble error={verifying.error} onRetry={() => mutate()} />}
        {verifying.data && !verifying.isPending && <Verdict of={verifying.data} />}
      </div>
      <Button onClick={() => mutate()} disabled={verifying.isPending}>Verify again</Button>
      <Section level={2} title="What the server finds">
        <p className="text-muted">It also has the payloads, the checkpoints and the run this one belongs to. This rests on its word.</p>
        {report.error && <Trouble error={report.error} />}
        {report.data && (report.data.is_valid ? <p className="text-good">The chain, the values it commits to, and {report.data.checkpoints.length === 1 ? 'its checkpoint' : `its ${report.data.checkpoints.length} checkpoints`} hold.</p> : <ul className="list-disc pl-5 text-bad">{report.data.not_valid.map((why) => <li key={why}><Text>{why}</Text></li>)}</ul>)}
      </Section>
    </div>
  )
}

function Verdict({ of: { bad, count, head, proven } }: { of: Found }) {
  if (bad) {
    return (
      <Card tone="bad" icon={<ShieldAlert size={18} aria-hidden />} title={`Event ${bad.seq + 1}: ${bad.what}`}>
        <Facts>
          <Fact name="Expected"><code className="break-all"><Text>{bad.expected}</Text></code></Fact>
          <Fact name="Found"><code className="break-all"><Text>{bad.found}</Text></code></Fact>
        </Facts>
      </Card>
    )
  }
  const holds = proven?.holds ?? false
  const tone = holds ? 'good' : proven ? 'bad' : 'warn'
  const Icon = holds ? ShieldCheck : proven ? ShieldAlert : ShieldQuestionMark
  return (
    <Card tone={tone} icon={<Icon size={18} aria-hidden />} title={`All ${count.toLocaleString('en')} events follow one another, as computed in this browser`}>
      <Facts>
        <Fact name="Last event"><Id length={40}>{head}</Id></Fact>
        <Fact name="In the journal">
          {!proven && 'nothing of this run is sealed yet; that takes a moment'}
          {proven?.holds && `event ${proven.seq + 1} is in the signed tree of ${proven.size.toLocaleString('en')} entries, and so is what comes before it, which it names by its hash${proven.seq + 1 < count ? '; what comes after it is not sealed yet' : ''}${proven.isFirst ? '. This browser has no key of this journal yet: it took the one that the server names' : ''}`}
          {proven && !proven.holds && <Text>{`event ${proven.seq + 1}: ${proven.why}`}</Text>}
        </Fact>
        <Fact name="Not ruled out">values that are not in the journal (see below), and what the page on the journal names</Fact>
      </Facts>
    </Card>
  )
}

const TONES = { good: 'border-good/40 bg-good-ground text-good', bad: 'border-bad/40 bg-bad-ground text-bad', warn: 'border-warn/40 bg-warn-ground text-warn' }

function Card({ tone, icon, title, children }: { tone: keyof typeof TONES; icon: ReactNode; title: string; children: ReactNode }) {
  return (
    <div className={`space-y-3 rounded-lg border p-4 ${TONES[tone]}`}>
      <h2 className="flex items-center gap-2 font-semibold">{icon} {title}</h2>
      <div className="text-ink">{children}</div>
    </div>
  )
}

async function verify(runId: string, progress: (done: number) => void): Promise<Found> {
  await check(false) // it decides which key this browser trusts
  const chain = new RunChain(runId)
  let sealed: { seq: number; hash: string } | null = null
  for (let after: number | null = -1; after !== null; ) {
    const page: Awaited<ReturnType<typeof eventsAfter>> = await eventsAfter(runId, after)
    const bad = await chain.follow(page.events)
    progress(chain.count)
    if (bad) return { bad, count: chain.count, head: chain.head, proven: null }
    sealed = page.events.at(-1) ?? sealed
    after = page.next
  }
  return { bad: null, count: chain.count, head: chain.head, proven: sealed && (await provenUpTo(runId, sealed)) }
}

function eventsAfter(runId: string, after: number) {
  return told(api.GET('/v1/events', { params: { query: { run_id: runId, after, limit: PAGE } } }))
}

/** Proves the last event, or, while that is not sealed yet, one of the few before it. */
async function provenUpTo(runId: string, last: { seq: number; hash: string }): Promise<Found['proven']> {
  for (let seq = last.seq, tries = 0; seq >= 0 && tries < 5; seq = Math.floor(seq / 2), tries += 1) {
    const hash = seq === last.seq ? last.hash : (await eventsAfter(runId, seq - 1)).events[0]?.hash
    if (hash === undefined) return null
    const proven = await proveIncluded(runId, seq, hash).catch(() => null) // not sealed yet
    if (proven) return { ...proven, seq }
    if (seq === 0) return null
  }
  return null
}
