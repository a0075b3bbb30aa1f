import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useState } from 'react'
import { me } from '../../api/asks'
import { api, told } from '../../api/client'
import { useMay } from '../../api/may'
import { Acting, AskedLine, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'

const HOUR = 3_600_000
const UNTIL = [
  { name: '8 hours', is: 8 * HOUR },
  { name: '1 day', is: 24 * HOUR },
  { name: '1 week', is: 7 * 24 * HOUR },
  { name: '2 weeks', is: 14 * 24 * HOUR },
] as const

/** Lets somebody else decide for a while what you may decide; who decided for whom stays on the record. */
export function Delegating() {
  const { open, show, close } = useOpen<'asking'>()
  const may = useMay(['approver'])
  if (!may) return null
  return (
    <>
      <Button onClick={show('asking')}>Delegate …</Button>
      {open && <Asking onClose={close} />}
    </>
  )
}

function Asking({ onClose }: { onClose: () => void }) {
  const [to, setTo] = useState('')
  const [time, setTime] = useState<number>(UNTIL[1].is)
  const questions = useQueryClient()
  const act = async () => {
    await told(api.POST('/v1/delegations', { body: { to: to.trim(), until: new Date(Date.now() + time).toISOString(), reason: 'delegated in the dashboard' } }))
    setTo('')
    await questions.invalidateQueries({ queryKey: ['approvals', 'delegations'] })
  }
  return (
    <Acting title="Let somebody else decide for you" verb="Delegate" needs={['approver']} isReady={to.trim() !== ''} act={act} onClose={onClose}>
      <p>Whoever you name may answer every question that you may answer, on your behalf. Nobody answers one question twice, for themselves and for you.</p>
      <AskedLine label="To whom?" hint="A person's name, as in the list of people." value={to} onChange={setTo} />
      <label className="block space-y-1">
        <span className="font-medium">For how long?</span>
        <select value={time} onChange={(event) => setTime(Number(event.target.value))} className="w-full rounded-md border border-line bg-paper p-2">
          {UNTIL.map((one) => <option key={one.name} value={one.is}>{one.name}</option>)}
        </select>
      </label>
      <Given />
    </Acting>
  )
}

/** Lists what you have delegated, each with a way to end it. */
function Given() {
  const questions = useQueryClient()
  const name = useQuery(me).data?.name
  const { data } = useQuery({ queryKey: ['approvals', 'delegations'], queryFn: () => told(api.GET('/v1/delegations')) })
  const mine = data?.delegations.filter((one) => one.giver === name && Date.parse(one.until) > Date.now()) ?? []
  const end = async (id: string) => {
    await told(api.POST('/v1/delegations/{delegation_id}/end', { params: { path: { delegation_id: id } }, body: { reason: 'ended in the dashboard' } }))
    await questions.invalidateQueries({ queryKey: ['approvals', 'delegations'] })
  }
  if (mine.length === 0) return null
  return (
    <ul aria-label="Your delegations" className="space-y-2 border-t border-line pt-3">
      {mine.map((one) => (
        <li key={one.id} className="flex flex-wrap items-center justify-between gap-2">
          <span><Text>{one.to}</Text> decides for you until <When at={one.until} /></span>
          <Button onClick={() => void end(one.id)}>End it</Button>
        </li>
      ))}
    </ul>
  )
}
