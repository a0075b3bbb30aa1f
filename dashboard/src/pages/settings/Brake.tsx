import { useQuery, useQueryClient } from '@tanstack/react-query'
import { OctagonX } from 'lucide-react'
import { useState } from 'react'
import { api, told } from '../../api/client'
import { Acting, AskedLine, useOpen } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Section } from '../../parts/Fact'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'

/** Stops all effects of the tenant at once, and lets them go again. */
export function Brake() {
  const { data } = useQuery({ queryKey: ['stop'], queryFn: () => told(api.GET('/v1/stop')), refetchInterval: 10_000 })
  const { open, show, close } = useOpen<'stop' | 'go'>()
  const [reason, setReason] = useState('')
  const questions = useQueryClient()
  const act = async () => {
    if (open === 'stop') await told(api.POST('/v1/stop', { body: { reason } }))
    else await told(api.POST('/v1/stop/end', { body: { reason } }))
    setReason('')
    close()
    await questions.invalidateQueries({ queryKey: ['stop'] })
  }
  return (
    <Section level={2} title="The brake">
      {data?.is_stopped ? (
        <div role="status" className="flex flex-wrap items-center gap-3 rounded-lg bg-bad-ground p-3 text-sm text-bad">
          <OctagonX size={18} aria-hidden />
          <span>All effects are stopped by <Text>{data.by ?? ''}</Text>{data.at && <> <When at={data.at} /></>}: <Text>{data.reason ?? ''}</Text></span>
          <Button className="ml-auto" onClick={show('go')}>Let them go …</Button>
        </div>
      ) : (
        <p className="flex flex-wrap items-center gap-3 text-sm">Effects run as the rules say. <Button look="bad" onClick={show('stop')}>Stop all effects …</Button></p>
      )}
      {open && (
        <Acting title={open === 'stop' ? 'Stop all effects' : 'Let effects go'} verb={open === 'stop' ? 'Stop' : 'Let go'} look={open === 'stop' ? 'bad' : 'main'} needs={[]} isReady={open === 'go' || reason.trim() !== ''} act={act} onClose={close}>
          <p>{open === 'stop' ? 'No tool of this tenant is entered by anybody from now on; those inside may finish. It is on the record.' : 'Whatever the rules allow runs again.'}</p>
          <AskedLine label="Why" value={reason} onChange={setReason} />
        </Acting>
      )}
    </Section>
  )
}
