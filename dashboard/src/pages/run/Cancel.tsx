import { useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { api, told } from '../../api/client'
import type { Run } from '../../api/runs'
import { Acting, Asked } from '../../parts/Acting'

export function Cancel({ run, onClose }: { run: Run; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const questions = useQueryClient()
  const act = async () => {
    await told(api.POST('/v1/runs/{run_id}/cancel', { params: { path: { run_id: run.id } }, body: { reason: reason.trim() } }))
    await questions.invalidateQueries({ queryKey: ['runs', run.id] })
    onClose()
  }
  return (
    <Acting needs={['agent', 'approver']} title="Cancel this run" verb="Cancel it" look="bad" isReady={reason.trim() !== ''} act={act} onClose={onClose}>
      <ul className="list-disc space-y-1 pl-5">
        <li>It ends here, for good: a canceled run cannot be resumed, only forked.</li>
        <li>Whoever drives it is refused at its next call. A call that is under way is not stopped; what comes of it is still recorded.</li>
        <li>What was done stays done. To undo it: <code>indelible runs compensate</code>.</li>
      </ul>
      <Asked label="Why?" hint="It is on the record." value={reason} onChange={setReason} isFirst />
    </Acting>
  )
}
