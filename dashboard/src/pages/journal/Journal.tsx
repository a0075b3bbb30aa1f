import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { ShieldAlert, ShieldCheck } from 'lucide-react'
import { useRef, useState } from 'react'
import { journalEntries, journalHead, PAGE, type Entry } from '../../api/asks'
import { Button } from '../../parts/Button'
import { Id } from '../../parts/Copy'
import { Empty } from '../../parts/Empty'
import { Fact, Facts, Section } from '../../parts/Fact'
import { Prove } from '../../parts/Prove'
import { Text } from '../../parts/Text'
import { useTitle } from '../../parts/title'
import { Trouble } from '../../parts/Trouble'
import { When } from '../../parts/When'
import { toBase64 } from '../../record/bytes'
import { acceptLoss, check, trust, useChecked, type Checked } from '../../record/checking'
import type { Continuation } from '../../record/trust'
import { Heads } from './Heads'

/** Shows the record of everything, and verifies it here, in this browser. */
export function Journal() {
  useTitle('Journal')
  const checked = useChecked()
  return (
    <div className="mx-auto max-w-5xl space-y-6 p-5">
      <div className="flex flex-wrap items-center gap-3">
        <h1 className="text-xl font-semibold">Journal</h1>
        <Button look="main" disabled={checked.is === 'checking'} onClick={() => void check(true)}>
          {checked.is === 'checking' ? `Verifying ${checked.done.toLocaleString('en')} of ${checked.all.toLocaleString('en')}` : 'Verify now'}
        </Button>
      </div>
      <div aria-live="polite"><Verdict of={checked} /></div>
      {checked.is === 'verified' && <Heads />}
      <Entries bad={checked.is === 'tampered' ? checked.flaw.index : undefined} />
    </div>
  )
}

function Verdict({ of }: { of: Checked }) {
  switch (of.is) {
    case 'verified':
      return <Verified of={of} />
    case 'tampered':
      return <Tampered of={of} />
    case 'lost':
      return (
        <Card tone="warn" title="A loss was declared: what this browser saw of the journal is not all here">
          <p>{declared(of.loss)} This browser has seen {of.pinned.seen?.size.toLocaleString('en')} entries. All {of.head.size.toLocaleString('en')} that are here now are what was signed.</p>
          <p>If nobody told you of it, ask whoever runs the server.</p>
          <Button onClick={() => void acceptLoss(of.head, of.pinned)}>I know of this loss: go on from here</Button>
        </Card>
      )
    case 'other-key':
      return (
        <Card tone="warn" title="Signed by a key that this browser does not know">
          <p>Until now it was <Id length={40}>{of.pinned.vkey}</Id>. If the key was rotated, the new one is known to whoever runs the server: <code>indelible keys list</code>. Compare it before you trust it.</p>
          <p><Id length={60}>{of.vkey}</Id></p>
          <Button onClick={() => void trust(of.vkey, of.pinned)}>I compared it: trust it from now on</Button>
        </Card>
      )
    case 'empty':
      return <Empty title="Nothing is sealed yet">The journal is signed a moment after the first call.</Empty>
    case 'large':
      return <p className="text-muted">{of.size.toLocaleString('en')} entries are signed. Verifying reads all of them, so it waits until you ask for it.</p>
    case 'trouble':
      return <Trouble error={of.error} onRetry={() => void check(true)} />
    default:
      return null
  }
}

const declared = ({ index, size, lost }: Continuation) => `Entry #${index.toLocaleString('en')} says that the journal went on from ${size.toLocaleString('en')} entries though ${lost.size.toLocaleString('en')} were signed, as after restoring a backup.`

function Verified({ of }: { of: Extract<Checked, { is: 'verified' }> }) {
  const older = of.pinned.seen
  return (
    <Card tone="good" title={`All ${of.head.size.toLocaleString('en')} entries of ${of.runs.toLocaleString('en')} runs are what was signed`}>
      <Facts>
        <Fact name="Journal"><Text>{of.head.origin}</Text></Fact>
        <Fact name="Root"><Id length={44}>{toBase64(of.head.root)}</Id></Fact>
        <Fact name="Key"><Id length={60}>{of.pinned.vkey}</Id></Fact>
        {of.losses.map((loss) => <Fact key={loss.index} name="Attention: a loss was declared">{declared(loss)}</Fact>)}
        <Fact name="Ruled out">an entry edited, removed, inserted or moved{!of.isFirst && older ? '; anything this browser saw before changed or cut off' : ''}</Fact>
        <Fact name="Not ruled out">
          {of.isFirst ? 'that the key is not the right one: this browser saw it for the first time, from this server. Compare it with: indelible keys list. ' : ''}
          payloads, which are not in the journal (indelible verify checks them); entries newer than this head cut off; two histories shown to two people, unless a witness signs as well
        </Fact>
      </Facts>
    </Card>
  )
}

function Tampered({ of: { flaw } }: { of: Extract<Checked, { is: 'tampered' }> }) {
  return (
    <Card tone="bad" title={`The record was tampered with: ${flaw.what}`}>
      <Facts>
        {flaw.index !== undefined && <Fact name="Entry">#{flaw.index.toLocaleString('en')}</Fact>}
        {flaw.run !== undefined && <Fact name="Run"><Text>{flaw.run}</Text>, event {(flaw.seq ?? 0) + 1}</Fact>}
        {flaw.expected !== undefined && <Fact name="Expected"><code className="break-all"><Text>{flaw.expected}</Text></code></Fact>}
        {flaw.found !== undefined && <Fact name="Found"><code className="break-all"><Text>{flaw.found}</Text></code></Fact>}
      </Facts>
      <p>Keep the database as it is, and verify it where it lies: <code>indelible verify</code>. Restore from a backup only after that.</p>
    </Card>
  )
}

const TONES = { good: 'border-good/40 bg-good-ground text-good', bad: 'border-bad/40 bg-bad-ground text-bad', warn: 'border-warn/40 bg-warn-ground text-warn' }

function Card({ tone, title, children }: { tone: keyof typeof TONES; title: string; children: React.ReactNode }) {
  const Icon = tone === 'good' ? ShieldCheck : ShieldAlert
  return (
    <div className={`space-y-3 rounded-lg border p-4 ${TONES[tone]}`}>
      <h2 className="flex items-center gap-2 font-semibold"><Icon size={18} aria-hidden /> {title}</h2>
      <div className="space-y-3 text-sm text-ink">{children}</div>
    </div>
  )
}

/** Gives the first entry to show: the newest hundred as they were when somebody came, or those around one that was edited. */
function useFirst(size: number | undefined, bad: number | undefined, chosen: number | null): number | undefined {
  const came = useRef<number | undefined>(undefined)
  came.current ??= size
  if (chosen !== null) return chosen
  if (bad !== undefined) return bad < PAGE ? 0 : bad - 5
  return came.current === undefined ? undefined : Math.max(0, came.current - PAGE)
}

function Entries({ bad }: { bad: number | undefined }) {
  const head = useQuery(journalHead)
  const size = head.data?.size ?? (head.isError ? 0 : undefined)
  const [chosen, setChosen] = useState<number | null>(null)
  const from = useFirst(size, bad, chosen)
  const asked = useInfiniteQuery({ ...journalEntries(from ?? 0), enabled: from !== undefined })
  const found = asked.data?.pages.flatMap((page) => page.events) ?? []
  if (asked.error) return <Trouble error={asked.error} onRetry={() => void asked.refetch()} />
  if (found.length === 0) return null
  return (
    <Section title="Entries">
      {from !== undefined && from > 0 && <Button onClick={() => setChosen(Math.max(0, from - PAGE))}>Show those before #{from.toLocaleString('en')}</Button>}
      <div className="overflow-x-auto rounded-lg border border-line">
        <table className="w-full text-left text-sm">
          <thead className="bg-raised text-muted">
            <tr>{['#', 'what', 'run', 'when', 'hash', 'proof'].map((name) => <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>)}</tr>
          </thead>
          <tbody>{found.map((entry) => <Row key={entry.index} of={entry} isBad={entry.index === bad} />)}</tbody>
        </table>
      </div>
      {asked.hasNextPage && <Button onClick={() => void asked.fetchNextPage()}>Show those after them</Button>}
    </Section>
  )
}

function Row({ of, isBad }: { of: Entry; isBad: boolean }) {
  const body = of.body as { at?: string }
  return (
    <tr className={`border-t border-line ${isBad ? 'bg-bad-ground text-bad' : ''}`} {...(isBad && { 'aria-label': 'tampered with' })}>
      <td className="px-3 py-1.5 text-right">{of.index}</td>
      <td className="px-3 py-1.5"><Text>{of.type.replaceAll('_', ' ')}</Text>{isBad && <strong> · not what was recorded</strong>}</td>
      <td className="max-w-48 truncate px-3 py-1.5">{of.run_id.startsWith('indelible:') ? <Text>{of.run_id}</Text> : <Link to="/runs/$runId" params={{ runId: of.run_id }} search={{ line: of.seq }} className="text-inherit"><Text>{of.run_id}</Text></Link>}</td>
      <td className="px-3 py-1.5">{body.at && <When at={body.at} />}</td>
      <td className="px-3 py-1.5"><Id length={10}>{of.hash}</Id></td>
      <td className="px-3 py-1.5"><Prove runId={of.run_id} seq={of.seq} hash={of.hash} /></td>
    </tr>
  )
}
