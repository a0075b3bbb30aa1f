import { useMutation, useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { api, HOME, told } from '../../api/client'
import { useMay } from '../../api/may'
import { Button } from '../../parts/Button'
import { Id } from '../../parts/Copy'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'

type Form = 'bundle' | 'html'

/** Has the server write a run into a file that verifies offline. */
export function Export({ runId }: { runId: string }) {
  const [form, setForm] = useState<Form>('bundle')
  const [isBare, setBare] = useState(false)
  const may = useMay(['auditor'])
  const ordering = useMutation({
    mutationFn: () => told(api.POST('/v1/exports', { body: { form, run_id: runId, q: '', withhold: [], without_payloads: isBare } })),
  })
  return (
    <div className="space-y-2">
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <select aria-label="Form" value={form} onChange={(event) => setForm(event.target.value as Form)} className="rounded-md border border-line bg-paper p-1.5">
          <option value="bundle">a bundle, with a verifier inside</option>
          <option value="html">a page for people, which checks itself</option>
        </select>
        <label className="flex items-center gap-2"><input type="checkbox" checked={isBare} onChange={(event) => setBare(event.target.checked)} /> without arguments and results</label>
        <Button look="main" disabled={!may || ordering.isPending} onClick={() => ordering.mutate()}>Make it</Button>
      </div>
      {!isBare && <p className="text-muted">It holds what was called with what, and what came of it: hand it to nobody who may not know that.</p>}
      {!may && <p className="text-muted">It takes the scope auditor or admin, which you do not have.</p>}
      {ordering.error && <Trouble error={ordering.error} />}
      {ordering.data && <Making id={ordering.data.id} />}
    </div>
  )
}

/** Says how far an export is, and leads to the file when it is there. */
function Making({ id }: { id: string }) {
  const { data, error } = useQuery({
    queryKey: ['exports', id],
    queryFn: () => told(api.GET('/v1/exports/{export_id}', { params: { path: { export_id: id } } })),
    refetchInterval: ({ state }) => (state.data && !['waiting', 'running'].includes(state.data.state) ? false : 500),
  })
  if (error) return <Trouble error={error} />
  if (!data) return <p role="status" className="text-muted">Ordered …</p>
  if (data.state !== 'done') return <p role="status" className={data.why ? 'text-bad' : 'text-muted'}>{data.state}: <Text>{data.why ?? `${data.done.toLocaleString('en')} events so far`}</Text></p>
  return (
    <p role="status" className="flex flex-wrap items-center gap-x-4">
      <a href={new URL(`v1/exports/${id}/download`, HOME).href} download>Download it</a>
      <span>{data.events?.toLocaleString('en')} events</span>
      {data.not_covered ? <span className="text-warn">{data.not_covered} newer ones are not sealed yet and not in it</span> : null}
      {data.sha256 && <span>SHA-256 <Id length={16}>{data.sha256}</Id></span>}
    </p>
  )
}
