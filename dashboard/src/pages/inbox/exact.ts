/** What a decision is bound to, worked out in this browser: nobody has to believe that the digest is of what is shown. */

import { useQuery } from '@tanstack/react-query'
import { useMemo } from 'react'
import { me, type ApprovalView } from '../../api/asks'
import { readCanonical } from '../../record/canonical'
import { isDigestOfApproval } from '../../record/identity'

export type Bound =
  | { readonly is: 'checking' }
  | { readonly is: 'same' }
  | { readonly is: 'other' }
  /** The browser lends its hashes to pages that came over https or from this machine, and to no others. */
  | { readonly is: 'unable' }
  /** It is decided, so its arguments may be gone or others by now. */
  | { readonly is: 'over' }

/** Gives the arguments to show, and whether the digest that is sent back is of exactly these. */
export function useExact(view: ApprovalView | undefined): { args: unknown; bound: Bound } {
  const tenant = useQuery(me).data?.tenant
  const read = useMemo(() => (view ? readCanonical(view.args_json) : null), [view?.args_json])
  const isOpen = view?.approval.status === 'pending' || view?.approval.status === 'approved'
  const { data: isSame } = useQuery({
    queryKey: ['digest', tenant, view?.approval.digest, view?.args_json],
    queryFn: () => isDigestOfApproval(view!.approval, view!.args_json, tenant!),
    enabled: view !== undefined && tenant !== undefined && isOpen && window.isSecureContext,
    staleTime: Number.POSITIVE_INFINITY,
    gcTime: 0, // the text may be a megabyte
    retry: false,
  })
  const args = read ? read.value : view?.args
  if (!view || !isOpen) return { args, bound: { is: 'over' } }
  if (!read) return { args, bound: { is: 'other' } }
  if (!window.isSecureContext) return { args, bound: { is: 'unable' } }
  return { args, bound: { is: isSame === undefined ? 'checking' : isSame ? 'same' : 'other' } }
}
