import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, told } from '../../api/client'
import type { components } from '../../api/schema'
import { Acting, Asked, AskedLine } from '../../parts/Acting'
import { Text } from '../../parts/Text'
import { wanted, type What } from './wanted'

type Report = components['schemas']['ErasureShown']

/** Forgets values in two steps: first it says what would go and what would stay, then, told again, it lets it go. */
export function Erasing({ of, onClose }: { of: What; onClose: () => void }) {
  const [what, setWhat] = useState(of)
  const [reason, setReason] = useState('')
  const [report, setReport] = useState<Report | null>(null)
  const questions = useQueryClient()
  const change = (next: Partial<What>) => {
    setWhat({ ...what, ...next })
    setReport(null) // what was shown is of something else
  }
  const asked = wanted(what)
  const act = async () => {
    const body = { ...asked!, reason: reason.trim() }
    const answer = await told(api.POST('/v1/erasures', { body: { ...body, dry_run: report === null } }))
    setReport(answer)
    if (!answer.dry_run) await questions.invalidateQueries()
  }
  if (report && !report.dry_run) return <Done of={report} onClose={onClose} />
  return (
    <Acting
      title={what.kind === 'person' ? 'Forget a person' : what.seq ? 'Forget what an event holds' : 'Forget a run'}
      verb={report ? `Erase ${report.erased === 1 ? 'this value' : `these ${report.erased} values`} for good` : 'Show what would go'}
      look={report ? 'bad' : 'main'}
      needs={[]}
      isReady={asked !== null && reason.trim() !== '' && (report === null || report.erased > 0)}
      act={act}
      onClose={onClose}
    >
      <p>Values are arguments, results, texts and what agents told and saved. They go for good; the record of what happened stays, and verifies.</p>
      {what.kind === 'person' ? <Person of={what} onChange={change} /> : <OfRun of={what} onChange={change} />}
      <Asked label="Why?" hint="It is on the record, with your name." rows={2} value={reason} onChange={setReason} />
      {report && <Report of={report} />}
    </Acting>
  )
}

type Part = { of: What; onChange: (next: Partial<What>) => void }

function Person({ of, onChange }: Part) {
  return (
    <>
      <AskedLine label="Who?" hint="As the tools name them in the argument that says whom a call is about. Their name is not recorded." value={of.subject} onChange={(subject) => onChange({ subject })} />
      <label className="flex items-start gap-2">
        <input type="checkbox" checked={of.force} onChange={(event) => onChange({ force: event.target.checked })} className="mt-1" />
        <span>Withdraw calls about them that still wait, and forget these too</span>
      </label>
    </>
  )
}

function OfRun({ of, onChange }: Part) {
  return (
    <>
      <AskedLine label="Run" value={of.run} onChange={(run) => onChange({ run })} />
      <div className="grid grid-cols-2 gap-3">
        <AskedLine kind="number" label="Event" hint="Its number; empty: all of them." value={of.seq} onChange={(seq) => onChange({ seq })} />
        <AskedLine label="Fields" hint="As args, result; empty: all." value={of.fields} onChange={(fields) => onChange({ fields })} />
      </div>
    </>
  )
}

/** Is how many lines of a long report are shown. */
const MOST = 50

function Report({ of: { erased, runs, kept } }: { of: Report }) {
  const named = Object.entries(runs)
  return (
    <div role="status" className="space-y-2 rounded-lg border border-line p-3">
      <p className="font-medium">{erased === 0 ? 'Nothing would go.' : `${erased.toLocaleString('en')} ${erased === 1 ? 'value' : 'values'} would go, of ${named.length.toLocaleString('en')} ${named.length === 1 ? 'run' : 'runs'}:`}</p>
      {named.length > 0 && (
        <ul className="max-h-40 overflow-auto">
          {named.slice(0, MOST).map(([run, count]) => <li key={run} className="flex justify-between gap-4"><Text>{run}</Text> <span className="text-muted">{count}</span></li>)}
          {named.length > MOST && <li className="text-muted">and {named.length - MOST} more runs</li>}
        </ul>
      )}
      <Kept of={kept} />
    </div>
  )
}

function Kept({ of }: { of: Report['kept'] }) {
  if (of.length === 0) return null
  return (
    <div className="space-y-1 text-warn">
      <p className="font-medium">Still needed, so kept:</p>
      <ul className="max-h-40 list-disc space-y-1 overflow-auto pl-5">
        {of.slice(0, MOST).map((one, at) => <li key={at}><Text>{one.effect_id ?? `run ${one.run_id}`}</Text>: <Text>{one.why}</Text></li>)}
        {of.length > MOST && <li>and {of.length - MOST} more</li>}
      </ul>
    </div>
  )
}

function Done({ of, onClose }: { of: Report; onClose: () => void }) {
  return (
    <Acting title="Forgotten" verb="Done" needs={[]} act={async () => onClose()} onClose={onClose}>
      <p role="status"><b>{of.erased.toLocaleString('en')} {of.erased === 1 ? 'value is' : 'values are'} gone.</b> That it happened, when, and by whom is on the record, which still verifies: see for yourself on the page Journal.</p>
      {of.remarks.length > 0 && <ul className="list-disc space-y-1 pl-5">{of.remarks.map((remark) => <li key={remark}><Text>{remark}</Text></li>)}</ul>}
      <Kept of={of.kept} />
    </Acting>
  )
}
