import { useQuery } from '@tanstack/react-query'
import { useNavigate } from '@tanstack/react-router'
import { savedIn, type Checkpoint, type CheckpointCompared } from '../../../api/runs'
import { Changes } from '../../../parts/Changes'
import { Json } from '../../../parts/Json'
import { many } from '../../../parts/time'
import { Trouble } from '../../../parts/Trouble'

type Props = { runId: string; of: Checkpoint; among: readonly Checkpoint[]; beside: string | undefined }

/** Shows what an agent saved, and field by field what is different in another checkpoint: the one before, unless chosen. */
export function Saved({ runId, of, among, beside }: Props) {
  const go = useNavigate({ from: '/runs/$runId' })
  const others = among.filter((one) => one.id !== of.id && one.has_state)
  const before = others.find((one) => one.id === beside) ?? others.find((one) => one.at < of.at) ?? others[0]
  const { data, error, refetch } = useQuery(savedIn(runId, of.id, before?.id))
  if (error) return <Trouble error={error} onRetry={() => void refetch()} />
  if (!data) return <p className="px-3 pb-3 text-muted">Looking …</p>
  return (
    <div className="space-y-4 px-3 pb-4">
      {before && (
        <section aria-label="Compared" className="space-y-2">
          <label className="flex flex-wrap items-center gap-2">
            <span className="font-semibold">What changed since the checkpoint</span>
            <select value={before.id} onChange={(event) => void go({ search: { tab: 'checkpoints', saved: of.id, beside: event.target.value }, replace: true })} className="rounded-md border border-line bg-paper px-2 py-1">
              {others.map((one) => <option key={one.id} value={one.id}>at event {one.at + 1}, {one.reason.replaceAll('_', ' ')}</option>)}
            </select>
          </label>
          <Differences of={data} before={before} after={of} />
        </section>
      )}
      <section className="space-y-2">
        <h2 className="font-semibold">State at event {of.at + 1}</h2>
        {data.state === null ? <p className="text-muted">It was erased, or this server cannot open it. The seal still proves that it was there.</p> : <Json value={data.state} label={`State at event ${of.at + 1}`} />}
      </section>
    </div>
  )
}

function Differences({ of: { fields }, before, after }: { of: CheckpointCompared; before: Checkpoint; after: Checkpoint }) {
  if (fields === null) return <p role="status" className="text-muted">One of the two cannot be read any more, so nobody can tell.</p>
  if (fields.length === 0) return <p role="status" className="text-muted">Nothing: both are the same.</p>
  return (
    <>
      <p role="status" className="text-muted">{many(fields.length, 'field')} {fields.length === 1 ? 'differs' : 'differ'}.</p>
      <Changes of={fields} before={`at event ${before.at + 1}`} after={`at event ${after.at + 1}`} />
    </>
  )
}
