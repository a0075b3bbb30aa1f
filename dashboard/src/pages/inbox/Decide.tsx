import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Check, X } from 'lucide-react'
import { useEffect, useState, type FormEvent } from 'react'
import type { ApprovalView } from '../../api/asks'
import { api, Problem, told } from '../../api/client'
import { Button } from '../../parts/Button'
import { Dialog } from '../../parts/Dialog'
import { Trouble } from '../../parts/Trouble'
import { useHotkeys } from '../../shell/hotkeys'

type Props = { view: ApprovalView; hasSeenAll: boolean; seen: { lines: number; all: number }; onDone: () => void }
type Decision = { decision: 'approve' | 'deny'; reason?: string }

/** Lets a person decide: approving takes two presses, and all of the arguments must have been on screen. */
export function Decide({ view: { approval }, hasSeenAll, seen, onDone }: Props) {
  const [isArmed, setArmed] = useState(false)
  const [isDenying, setDenying] = useState(false)
  const questions = useQueryClient()
  const sending = useMutation({
    mutationFn: (told_: Decision) =>
      told(
        api.POST('/v1/approvals/{approval_id}/decisions', {
          params: { path: { approval_id: approval.id }, header: { 'if-match': `"${approval.version}"` } },
          body: { ...told_, digest: approval.digest },
        }),
      ),
    onSettled: () => questions.invalidateQueries({ queryKey: ['approvals'] }),
    onSuccess: (answer) => {
      if (answer.approval.status !== 'pending') onDone()
    },
  })
  useEffect(() => setArmed(false), [approval.digest, approval.version]) // what was armed for something else is not armed
  const approve = () => {
    if (!hasSeenAll || sending.isPending) return
    if (!isArmed) return setArmed(true)
    setArmed(false)
    sending.mutate({ decision: 'approve' })
  }
  const isOpen = approval.status === 'pending'
  useHotkeys(isOpen ? { a: approve, d: () => setDenying(true), Escape: () => setArmed(false) } : {})
  if (!isOpen) return sending.error ? <Refused error={sending.error} /> : null
  return (
    <div className="space-y-2 rounded-lg border border-line bg-raised p-3">
      {sending.error && <Refused error={sending.error} />}
      <div className="flex flex-wrap items-center gap-2">
        <Button look="good" disabled={!hasSeenAll || sending.isPending} aria-describedby="before-approving" onClick={approve}>
          <Check size={16} aria-hidden /> {isArmed ? 'Press again to approve' : 'Approve'} <kbd className="text-ink">a</kbd>
        </Button>
        <Button look="bad" disabled={sending.isPending} onClick={() => setDenying(true)}>
          <X size={16} aria-hidden /> Deny … <kbd className="text-ink">d</kbd>
        </Button>
        <p id="before-approving" role="status" className="text-sm text-muted">
          {hasSeenAll ? (isArmed ? 'Exactly what is shown above will run, once.' : '') : `Scroll through all arguments first: ${seen.lines} of ${Number.isFinite(seen.all) ? seen.all : '…'} lines seen.`}
        </p>
      </div>
      {isDenying && (
        <Denying
          onClose={() => setDenying(false)}
          onDeny={(reason) => {
            setDenying(false)
            sending.mutate({ decision: 'deny', reason })
          }}
        />
      )}
    </div>
  )
}

function Denying({ onClose, onDeny }: { onClose: () => void; onDeny: (reason: string) => void }) {
  const [reason, setReason] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (reason.trim()) onDeny(reason.trim())
  }
  return (
    <Dialog title="Deny this call" onClose={onClose}>
      <form onSubmit={submit} className="space-y-3">
        <label className="block space-y-1 text-sm">
          <span>Why? The agent is told, and it is on the record.</span>
          <textarea autoFocus required rows={3} maxLength={10_000} value={reason} onChange={(event) => setReason(event.target.value)} className="w-full rounded-md border border-line bg-paper p-2" />
        </label>
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look="bad" disabled={!reason.trim()}>Deny</Button>
        </div>
      </form>
    </Dialog>
  )
}

/** Says in words of this page what the server would not do. */
function Refused({ error }: { error: unknown }) {
  if (error instanceof Problem && (error.status === 409 || error.status === 412)) {
    return <Trouble error={new Problem(error.status, error.type, 'It has changed meanwhile', `${error.detail}. What you see now is how it stands.`)} />
  }
  return <Trouble error={error} />
}
