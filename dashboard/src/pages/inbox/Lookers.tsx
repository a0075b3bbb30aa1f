import { queryOptions, useQuery, useQueryClient } from '@tanstack/react-query'
import { Eye } from 'lucide-react'
import { useEffect } from 'react'
import { me, type Approval } from '../../api/asks'
import { api, told } from '../../api/client'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'
import { forFilter } from '../../parts/quoting'

type Look = { readonly by: string; readonly at: string }

/** Gives who was shown a call, on the record: each once, with the last time they looked. */
const looksAt = ({ id, run_id, effect_id }: Approval) =>
  queryOptions({
    queryKey: ['approvals', 'looks', id],
    queryFn: async (): Promise<Look[]> => {
      const q = `run:${forFilter(run_id)} effect:${effect_id} type:approval_viewed`
      const { events } = await told(api.GET('/v1/events', { params: { query: { q, limit: 200 } } }))
      const looks = events.map(({ body }) => body as { actor: { id: string }; at: string })
      return [...new Map(looks.map(({ actor, at }) => [actor.id, { by: actor.id, at }])).values()]
    },
  })

/** Shows who has looked at this call, and puts on the record that whoever sees this did, if it is theirs to decide. */
export function Lookers({ of }: { of: Approval }) {
  const { data: looks } = useQuery(looksAt(of))
  const { data: I } = useQuery(me)
  useLooking(of, looks)
  if (!looks || looks.length === 0) return null
  return (
    <p className="flex flex-wrap items-center gap-x-3 gap-y-1 text-sm text-muted">
      <Eye size={15} aria-hidden /> <span>Looked at by</span>
      {looks.map(({ by, at }) => (
        <span key={by}><span className="text-ink">{by === I?.name ? 'you' : <Text>{by}</Text>}</span> <When at={at} /></span>
      ))}
    </p>
  )
}

function useLooking({ id, status }: Approval, looks: readonly Look[] | undefined): void {
  const questions = useQueryClient()
  const { data: I } = useQuery(me)
  const isMine = I !== undefined && I.kind === 'person' && (I.scopes.includes('approver') || I.scopes.includes('admin'))
  const isNew = looks !== undefined && status === 'pending' && isMine && !looks.some((one) => one.by === I.name)
  useEffect(() => {
    if (!isNew) return
    void told(api.POST('/v1/approvals/{approval_id}/views', { params: { path: { approval_id: id } } })).then(
      () => questions.invalidateQueries({ queryKey: ['approvals', 'looks', id] }),
      () => undefined, // who looked is a courtesy to others: what matters is said when something is decided
    )
  }, [id, isNew, questions])
}
