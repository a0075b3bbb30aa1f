import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, X } from 'lucide-react'
import { useState, type FormEvent } from 'react'
import { me, type Approval, type ApprovalView } from '../../api/asks'
import { api, Problem, told } from '../../api/client'
import { useMay } from '../../api/may'
import { Button } from '../../parts/Button'
import { Dialog } from '../../parts/Dialog'
import { Trouble } from '../../parts/Trouble'
import { useHotkeys } from '../../shell/hotkeys'
import { whatChanged, whyNotMine } from './deciding'
import { isMeant, noteDecision, useTwoPresses } from './hand'

type Props = { view: ApprovalView; hasSeenAll: boolean; seen: { lines: number; all: number }; onDone: (said: string) => void }
type Answer = { decision: 'approve' | 'deny'; reason?: string; about: Approval }

/** Lets a person decide: approving takes two presses of their own, and all of the arguments must have been on screen. */
export function Decide({ view: { approval }, hasSeenAll, seen, onDone }: Props) {
  const [isDenying, setDenying] = useState(false)
  const questions = useQueryClient()
  const sending = useMutation({
    mutationFn: ({ about, ...answer }: Answer) =>
      told(
        api.POST('/v1/approvals/{approval_id}/decisions', {
          params: { path: { approval_id: about.id }, header: { 'if-match': `"${about.version}"` } },
          body: { ...answer, digest: about.digest },
        }),
      ),
    onSettled: () => {
      noteDecision()
      return questions.invalidateQueries({ queryKey: ['approvals'] })
    },
    onSuccess: ({ approval: now }) => {
      if (now.status === 'approved') onDone(`Approved: ${now.tool} may run, once.`)
      else if (now.status !== 'pending') onDone(`Denied: ${now.tool} will not run, and the agent is told why.`)
    },
  })
  const isReady = hasSeenAll && !sending.isPending
  const { isArmed, isListening, press, disarm } = useTwoPresses(isReady ? `${approval.digest} ${approval.version}` : null, () => sending.mutate({ decision: 'approve', about: approval }))
  const deny = () => {
    if (isMeant()) setDenying(true)
  }
  const whyNot = whyNotMine(approval, useQuery(me).data?.name ?? '', useMay(['approver']))
  const isOpen = approval.status === 'pending'
  useHotkeys(isOpen && whyNot === null ? { a: press, d: deny, Escape: disarm } : {})
  const refused = sending.error && sending.variables && <Refused error={sending.error} read={sending.variables.about} now={approval} />
  if (!isOpen) return refused
  if (whyNot !== null) return <>{refused}<p className="rounded-lg border border-line bg-raised p-3 text-sm">{whyNot}</p></>
  return (
    <div className="space-y-2 rounded-lg border border-line bg-raised p-3">
      {refused}
      <div className="flex flex-wrap items-center gap-2">
        <Button look="good" disabled={!isReady} aria-disabled={!isListening} aria-describedby="before-approving" onClick={press}>
          <Check size={16} aria-hidden /> {isArmed ? 'Press again to approve' : 'Approve'} <kbd className="text-ink">a</kbd>
        </Button>
        <Button look="bad" disabled={sending.isPending} onClick={deny}>
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
            sending.mutate({ decision: 'deny', reason, about: approval })
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
    if (reason.trim() && isMeant()) onDeny(reason.trim())
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

/** Says in words of this page what the server would not do, and where to read on. */
function Refused({ error, read, now }: { error: unknown; read: Approval; now: Approval }) {
  if (!(error instanceof Problem && (error.status === 409 || error.status === 412))) return <Trouble error={error} />
  const isStale = now.version !== read.version
  const { title, detail } = isStale ? whatChanged(read, now) : { title: 'It was not counted', detail: error.detail }
  return (
    <Trouble error={new Problem(error.status, error.type, title, detail)}>
      <Link to="/effects/$effectId" params={{ effectId: now.effect_id }} className="text-inherit">Show the call and all that was decided about it</Link>
    </Trouble>
  )
}
