import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { me, type Approval } from '../../api/asks'
import { api, told } from '../../api/client'
import { Acting, Asked, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'

/** Lets whoever approved take it back, as long as nothing runs on it. */
export function TakeBack({ of }: { of: Approval }) {
  const name = useQuery(me).data?.name
  const { open, show, close } = useOpen<'asking'>()
  if (of.status !== 'approved' && of.status !== 'pending') return null
  if (!of.votes.some((vote) => vote.is_approval && vote.by === name)) return null
  return (
    <>
      <Button onClick={show('asking')}>Take your approval back …</Button>
      {open && <Asking of={of} onClose={close} />}
    </>
  )
}

function Asking({ of, onClose }: { of: Approval; onClose: () => void }) {
  const [reason, setReason] = useState('')
  const questions = useQueryClient()
  const act = async () => {
    const asking = { params: { path: { approval_id: of.id }, header: { 'if-match': `"${of.version}"` } }, body: { reason: reason.trim() } }
    await told(api.POST('/v1/approvals/{approval_id}/revoke', asking))
    await questions.invalidateQueries({ queryKey: ['approvals'] })
    onClose()
  }
  return (
    <Acting title="Take your approval back" verb="Take it back" look="bad" needs={['approver']} isReady={reason.trim() !== ''} act={act} onClose={onClose}>
      <p>The call has not begun. It will not run until it is approved again; if it begins before you are heard, it is too late, and you are told so.</p>
      <Asked isFirst label="Why?" hint="It is on the record." value={reason} onChange={setReason} />
    </Acting>
  )
}
