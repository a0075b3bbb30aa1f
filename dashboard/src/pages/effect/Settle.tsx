import { useState } from 'react'
import type { Effect } from '../../api/asks'
import { api, told as answered } from '../../api/client'
import { Acting, Asked } from '../../parts/Acting'
import { useChanged } from './Actions'
import { outcomeOf, type Told } from './settlement'

const VERBS = { succeeded: 'Record that it was done', failed: 'Record that it was not done', unknown: 'Settle' }

/** Lets a person say what became of an effect in doubt, and how they know. */
export function Settle({ of, onClose }: { of: Effect; onClose: () => void }) {
  const [told, setTold] = useState<Told>({ became: null, value: '', error: '', evidence: '' })
  const tell = (part: Partial<Told>) => setTold((before) => ({ ...before, ...part }))
  const meant = outcomeOf(told)
  const changed = useChanged(of)
  const act = async () => {
    if ('lacks' in meant) return
    await answered(api.POST('/v1/effects/{effect_id}/settle', { params: { path: { effect_id: of.id } }, body: meant }))
    await changed()
    onClose()
  }
  return (
    <Acting needs={['agent', 'approver']} title="Settle this effect" verb={VERBS[told.became ?? 'unknown']} isReady={!('lacks' in meant)} act={act} onClose={onClose}>
      <p>Look at the provider first, by the key of this effect. What you say here is the answer that every later call gets, and nothing is executed for it. It stands.</p>
      <fieldset className="space-y-1">
        <legend className="font-medium">What became of it?</legend>
        <Choice name="succeeded" words="It was done" chosen={told.became} onChoose={(became) => tell({ became })} />
        <Choice name="failed" words="It was not done, and it cannot still happen" chosen={told.became} onChoose={(became) => tell({ became })} />
      </fieldset>
      {told.became === 'succeeded' && (
        <Asked label="Its result" hint='As JSON, as the tool would have given it: {"id": "ch_1"}. Left empty, it is null.' isCode value={told.value} onChange={(value) => tell({ value })} />
      )}
      {told.became === 'failed' && (
        <Asked label="What went wrong" hint="The agent is told." value={told.error} onChange={(error) => tell({ error })} rows={2} />
      )}
      <Asked label="Evidence" hint="How do you know? It is on the record, with your name." value={told.evidence} onChange={(evidence) => tell({ evidence })} rows={2} />
      <p role="status" className="text-muted">{'lacks' in meant ? meant.lacks : ''}</p>
    </Acting>
  )
}

function Choice({ name, words, chosen, onChoose }: { name: 'succeeded' | 'failed'; words: string; chosen: Told['became']; onChoose: (name: Told['became']) => void }) {
  return (
    <label className="flex items-center gap-2">
      <input type="radio" name="became" value={name} checked={chosen === name} onChange={() => onChoose(name)} /> {words}
    </label>
  )
}
