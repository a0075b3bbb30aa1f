import { useInfiniteQuery, useMutation, useQueries, useQuery, useQueryClient } from '@tanstack/react-query'
import { Check } from 'lucide-react'
import { useState } from 'react'
import { approval as ask, approvals, me, type Approval, type ApprovalView } from '../../api/asks'
import { api, told } from '../../api/client'
import { useMay } from '../../api/may'
import { Button } from '../../parts/Button'
import { Text } from '../../parts/Text'
import { isDigestOfApproval } from '../../record/identity'
import { alike, SHORT } from './alike'
import { whyNotMine } from './deciding'
import { noteDecision, useTwoPresses } from './hand'

/** Offers to approve other questions of the same tool and rule together with this one: each is shown, and bound to its own digest. */
export function Alike({ to, isReady }: { to: ApprovalView; isReady: boolean }) {
  const [isOpen, setOpen] = useState(false)
  const pending = useInfiniteQuery(approvals('pending')).data?.pages.flatMap((page) => page.approvals) ?? []
  const I = useQuery(me).data
  const may = useMay(['approver'])
  const others = alike(to.approval, pending).filter((one) => whyNotMine(one, I?.name ?? '', may) === null)
  if (others.length === 0 || whyNotMine(to.approval, I?.name ?? '', may) !== null) return null
  return (
    <details className="rounded-lg border border-line px-3 py-2 text-sm" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="cursor-pointer">{others.length === 1 ? 'One more question' : `${others.length} more questions`} of the same tool, by the same rule</summary>
      {isOpen && <Together first={to} others={others} isReady={isReady} tenant={I?.tenant} />}
    </details>
  )
}

function Together({ first, others, isReady, tenant }: { first: ApprovalView; others: readonly Approval[]; isReady: boolean; tenant: string | undefined }) {
  const views = useQueries({ queries: others.map((one) => ask(one.id)) }).flatMap(({ data }) => (data ? [data] : []))
  const short = [first, ...views].filter((view) => view.approval.status === 'pending' && (view === first || view.args_json.length <= SHORT))
  const shown = short.map((view) => view.approval.digest + view.approval.version).join()
  const questions = useQueryClient()
  const sending = useMutation({
    mutationFn: () => approveEach(short, tenant),
    onSettled: () => {
      noteDecision()
      return questions.invalidateQueries({ queryKey: ['approvals'] })
    },
  })
  const canPress = isReady && short.length > 1 && !sending.isPending
  const { isArmed, isListening, press } = useTwoPresses(canPress ? shown : null, () => sending.mutate())
  const left = others.length + 1 - short.length
  return (
    <div className="mt-2 space-y-3">
      <ol className="divide-y divide-line rounded-lg bg-sunken font-mono text-[13px]">
        {short.slice(1).map(({ approval, args_json }) => (
          <li key={approval.id} className="px-3 py-1.5 break-all whitespace-pre-wrap"><Text>{args_json}</Text></li>
        ))}
      </ol>
      {left > 0 && <p className="text-muted">{left} more {left === 1 ? 'has' : 'have'} longer arguments: read {left === 1 ? 'it' : 'them'} one by one.</p>}
      <div className="flex flex-wrap items-center gap-3">
        <Button look="good" disabled={!canPress} aria-disabled={!isListening} onClick={press}>
          <Check size={16} aria-hidden /> {isArmed ? `Press again to approve all ${short.length}` : `Approve this and ${short.length - 1} more`}
        </Button>
        <p role="status" className="text-muted">{sending.data ?? (isReady ? '' : 'Scroll through all arguments above first.')}</p>
      </div>
    </div>
  )
}

/** Approves one after the other, each only if its digest is of what was shown; says what became of them. */
async function approveEach(views: readonly ApprovalView[], tenant: string | undefined): Promise<string> {
  let done = 0
  let refused = ''
  for (const { approval, args_json } of views) {
    try {
      if (tenant === undefined || (window.isSecureContext && !(await isDigestOfApproval(approval, args_json, tenant)))) throw new Error('its digest is not of what was shown')
      const header = { 'if-match': `"${approval.version}"` }
      await told(api.POST('/v1/approvals/{approval_id}/decisions', { params: { path: { approval_id: approval.id }, header }, body: { decision: 'approve', digest: approval.digest } }))
      done += 1
    } catch (error) {
      refused = error instanceof Error ? error.message : String(error)
    }
  }
  return done === views.length ? `All ${done} were counted.` : `${done} of ${views.length} were counted. Of the others: ${refused}`
}
