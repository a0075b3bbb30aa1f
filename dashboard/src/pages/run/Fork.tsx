import { useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { api, told } from '../../api/client'
import type { Run, Story } from '../../api/runs'
import { Acting, AskedLine } from '../../parts/Acting'

/** Begins another run from the record of this one. */
export function Fork({ run, story, onClose }: { run: Run; story: Story; onClose: () => void }) {
  const [at, setAt] = useState(String(story.events))
  const [name, setName] = useState('')
  const [isDry, setDry] = useState(true)
  const go = useNavigate()
  const number = Number(at)
  const isReady = Number.isInteger(number) && number >= 1 && number <= story.events
  const act = async () => {
    const body = { at: number - 1, dry_run: isDry, lease_s: 30, ...(name.trim() && { run_id: name.trim() }) }
    const forked = await told(api.POST('/v1/runs/{run_id}/fork', { params: { path: { run_id: run.id } }, body }))
    await told(api.POST('/v1/runs/{run_id}/release', { params: { path: { run_id: forked.run.id } }, body: { token: forked.token } }))
    onClose()
    await go({ to: '/runs/$runId', params: { runId: forked.run.id } })
  }
  return (
    <Acting needs={['agent']} title="Fork this run" verb="Fork it" isReady={isReady} act={act} onClose={onClose}>
      <p>A new run begins in which the calls of this one, up to an event, are answered from the record: none of them is made again. This run stays as it is. Nobody drives the new one until somebody resumes it.</p>
      <AskedLine label="Up to event" hint={`1 to ${story.events.toLocaleString('en')}, counted as in the list`} kind="number" value={at} onChange={setAt} />
      <AskedLine label="Name of the new run" hint="Left empty, it gets one." value={name} onChange={setName} />
      <label className="flex items-start gap-2">
        <input type="checkbox" checked={isDry} onChange={(event) => setDry(event.target.checked)} className="mt-1" />
        <span><span className="font-medium">Dry run</span><span className="block text-muted">What is not on the record is refused, unless it only reads: nothing outside is touched.</span></span>
      </label>
      {!isDry && <p className="rounded-md bg-warn-ground p-2 text-warn">New calls of this fork are real. Calls after event {at} were made in the first run and can be made again here.</p>}
    </Acting>
  )
}
