import { useQueryClient } from '@tanstack/react-query'
import { Ban, Gavel, RotateCcw } from 'lucide-react'
import { useState } from 'react'
import type { Effect } from '../../api/asks'
import { api, told } from '../../api/client'
import { Acting, Asked, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Settle } from './Settle'

type Act = 'settle' | 'retry' | 'cancel'

/** Offers what a person can do about an effect as it stands; the server decides whether it still can be done. */
export function Actions({ of }: { of: Effect }) {
  const { open, show, close } = useOpen<Act>()
  const can = { settle: of.status === 'in_doubt', retry: of.status === 'in_doubt' || of.status === 'failed', cancel: of.status === 'ready' || of.status === 'requires_approval' }
  return (
    <div className="ml-auto flex flex-wrap gap-1.5">
      {can.settle && <Button look="main" onClick={show('settle')}><Gavel size={15} aria-hidden /> Settle …</Button>}
      {can.retry && <Button onClick={show('retry')}><RotateCcw size={15} aria-hidden /> Allow another attempt …</Button>}
      {can.cancel && <Button look="bad" onClick={show('cancel')}><Ban size={15} aria-hidden /> Withdraw …</Button>}
      {open === 'settle' && <Settle of={of} onClose={close} />}
      {open === 'retry' && <Retry of={of} onClose={close} />}
      {open === 'cancel' && <Withdraw of={of} onClose={close} />}
    </div>
  )
}

type Props = { of: Effect; onClose: () => void }

/** Asks again for what changed by something that was done to an effect. */
export function useChanged(of: Effect) {
  const questions = useQueryClient()
  return () => Promise.all([['effects', of.id], ['runs', of.run_id], ['approvals']].map((queryKey) => questions.invalidateQueries({ queryKey })))
}

function Retry({ of, onClose }: Props) {
  const [reason, setReason] = useState('')
  const changed = useChanged(of)
  const act = async () => {
    await told(api.POST('/v1/effects/{effect_id}/retry', { params: { path: { effect_id: of.id } }, body: { reason: reason.trim() } }))
    await changed()
    onClose()
  }
  return (
    <Acting needs={['agent', 'approver']} title="Allow another attempt" verb="Allow it" look="bad" isReady={reason.trim() !== ''} act={act} onClose={onClose}>
      <ul className="list-disc space-y-1 pl-5">
        <li>The next call of this effect enters the handler again, as attempt {of.attempt + 1}. This page runs nothing.</li>
        {of.status === 'in_doubt' && <li className="text-bad">Attempt {of.attempt} may have done its work. If it did, it is done twice, unless the provider knows the key.</li>}
      </ul>
      <Asked label="Why is that safe?" hint="It is on the record." value={reason} onChange={setReason} isFirst />
    </Acting>
  )
}

function Withdraw({ of, onClose }: Props) {
  const [reason, setReason] = useState('')
  const changed = useChanged(of)
  const act = async () => {
    await told(api.POST('/v1/effects/{effect_id}/cancel', { params: { path: { effect_id: of.id } }, body: { reason: reason.trim() } }))
    await changed()
    onClose()
  }
  return (
    <Acting needs={['agent', 'approver']} title="Withdraw this call" verb="Withdraw it" look="bad" isReady={reason.trim() !== ''} act={act} onClose={onClose}>
      <p>It is not executed, now or later: whoever asks for it is told that it was withdrawn{of.status === 'requires_approval' ? ', and the open question to people is closed' : ''}.</p>
      <Asked label="Why?" hint="The agent is told, and it is on the record." value={reason} onChange={setReason} isFirst />
    </Acting>
  )
}
