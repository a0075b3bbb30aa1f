import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState, type FormEvent } from 'react'
import { api, told } from '../../api/client'
import type { Run } from '../../api/runs'
import type { components } from '../../api/schema'
import { AskedLine } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Changes } from '../../parts/Changes'
import { Dialog } from '../../parts/Dialog'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'

type Call = components['schemas']['CallCompared']
const WORDS = { same: 'the same', changed: 'differs', only_left: 'only here', only_right: 'only there' }
const TONES = { same: 'text-muted', changed: 'text-warn', only_left: 'text-bad', only_right: 'text-good' }

/** Shows the calls of two runs side by side; a fork is compared with what it was forked from. */
export function Compare({ run, onClose }: { run: Run; onClose: () => void }) {
  const first = run.fork?.run_id ?? ''
  const [name, setName] = useState(first)
  const [other, setOther] = useState(first)
  const asked = useQuery({
    queryKey: ['runs', run.id, 'differences', other],
    queryFn: () => told(api.GET('/v1/runs/{run_id}/differences', { params: { path: { run_id: run.id }, query: { other } } })),
    enabled: other !== '',
    retry: false,
  })
  const submit = (event: FormEvent) => {
    event.preventDefault()
    setOther(name.trim())
  }
  return (
    <Dialog title={`Compare ${run.id} with another run`} onClose={onClose} wide>
      <form onSubmit={submit} className="flex flex-wrap items-end gap-2 text-sm">
        <div className="min-w-0 flex-1"><AskedLine label="The other run" value={name} onChange={setName} /></div>
        <Button type="submit" look="main" disabled={!name.trim()}>Compare</Button>
      </form>
      {asked.error && <Trouble error={asked.error} />}
      {asked.data && <Calls of={asked.data.calls} />}
    </Dialog>
  )
}

function Calls({ of }: { of: readonly Call[] }) {
  const differing = of.filter((call) => call.kind !== 'same').length
  return (
    <div className="mt-4 space-y-3 text-sm">
      <p role="status" className="font-medium">{of.length === 0 ? 'Neither has made a call.' : differing === 0 ? `All ${of.length} calls are the same.` : `${differing} of ${of.length} calls differ.`}</p>
      <ol className="max-h-[55vh] space-y-2 overflow-auto" tabIndex={0} aria-label="Calls of both runs">
        {of.map((call, at) => (
          <li key={at} className="space-y-1 rounded-lg border border-line px-3 py-1.5">
            <p className="flex flex-wrap gap-x-3">
              <span className="font-medium"><Text>{call.tool}</Text></span> <span className={TONES[call.kind]}>{WORDS[call.kind]}</span>
              <span className="ml-auto flex gap-3"><To id={call.left}>here</To> <To id={call.right}>there</To></span>
            </p>
            {call.fields.length > 0 && <Changes of={call.fields} before="here" after="there" />}
          </li>
        ))}
      </ol>
    </div>
  )
}

function To({ id, children }: { id: string | null; children: string }) {
  if (id === null) return null
  return <Link to="/effects/$effectId" params={{ effectId: id }}>{children}</Link>
}
