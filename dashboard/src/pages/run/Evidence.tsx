import { useState } from 'react'
import { HOME, Problem } from '../../api/client'
import { Button } from '../../parts/Button'
import { Command } from '../../parts/Command'
import { Dialog } from '../../parts/Dialog'
import { Section } from '../../parts/Fact'
import { forShell } from '../../parts/quoting'
import { save } from '../../parts/saving'
import { Trouble } from '../../parts/Trouble'
import { Export } from './Export'

/** Hands out what proves something to somebody who trusts nobody here. */
export function Evidence({ runId, count, onClose }: { runId: string; count: number; onClose: () => void }) {
  const [number, setNumber] = useState(String(count))
  const [error, setError] = useState<unknown>(null)
  const seq = Number(number) - 1
  const fetchReceipt = () => {
    setError(null)
    receipt(runId, seq).then((text) => save(`${runId}-${seq + 1}.tlog-proof`, text), setError)
  }
  return (
    <Dialog title="Evidence" onClose={onClose} wide>
      <div className="space-y-4 text-sm">
        <Section title="One event: a receipt">
          <p className="text-muted">The event, its way to the signed tree head, and that head, in one file. Each event names the one before it by its hash, so a receipt of the last one holds for all before it in this run.</p>
          <div className="flex flex-wrap items-end gap-2">
            <label className="space-y-1"><span className="block font-medium">Event</span><input type="number" min={1} max={count} value={number} onChange={(event) => setNumber(event.target.value)} className="w-28 rounded-md border border-line bg-paper p-1.5" /></label>
            <Button look="main" disabled={!Number.isInteger(seq) || seq < 0 || seq >= count} onClick={fetchReceipt}>Download the receipt</Button>
          </div>
          {error !== null && <Trouble error={error} />}
        </Section>
        <Section title="The whole run: a bundle, or a page for people">
          <p className="text-muted">It verifies offline, with the journal's public key, which has to be sent by another way.</p>
          <Export runId={runId} />
          <Command name="the same in a terminal">{`indelible export bundle --out run.zip --run ${forShell(runId)}`}</Command>
          <Command name="the public key">{'indelible keys export-public'}</Command>
        </Section>
      </div>
    </Dialog>
  )
}

async function receipt(runId: string, seq: number): Promise<string> {
  const address = new URL('v1/journal/inclusion', HOME)
  address.search = new URLSearchParams({ run_id: runId, seq: String(seq) }).toString()
  const answer = await fetch(address, { credentials: 'same-origin', headers: { Accept: 'text/plain' } })
  if (answer.ok) return answer.text()
  const told = (await answer.json().catch(() => ({}))) as { title?: string; detail?: string; type?: string }
  throw new Problem(answer.status, told.type ?? 'about:blank', told.title ?? `Status ${answer.status}`, told.detail ?? '')
}
