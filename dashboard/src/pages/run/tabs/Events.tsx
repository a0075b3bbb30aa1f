import { ChevronDown, ChevronRight, ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import { HOME } from '../../../api/client'
import { useMay } from '../../../api/may'
import type { RunEvent, Story } from '../../../api/runs'
import { useOpen } from '../../../parts/Acting'
import { Button } from '../../../parts/Button'
import { Copy, Id } from '../../../parts/Copy'
import { Json } from '../../../parts/Json'
import { Prove } from '../../../parts/Prove'
import { curlFor } from '../../../parts/quoting'
import { Text } from '../../../parts/Text'
import { When } from '../../../parts/When'
import { Erasing } from '../../erasing/Erasing'
import { aRun } from '../../erasing/wanted'

/** Is how many events are there at once; the timeline shows all of them. */
const STEP = 200

/** Shows a run's events one by one, with everything they say. */
export function Events({ of, story, more }: { of: readonly RunEvent[]; story: Story; more: (() => void) | undefined }) {
  const [count, setCount] = useState(STEP)
  const onward = count < of.length ? () => setCount(count + STEP) : more
  return (
    <div className="p-4">
      <ol className="divide-y divide-line rounded-lg border border-line">
        {of.slice(0, count).map((event) => <Line key={event.seq} of={event} runId={story.run_id} isSafe={event.id === story.last_safe_event} />)}
      </ol>
      {onward && <Button className="mt-3" onClick={onward}>Show more</Button>}
    </div>
  )
}

function Line({ of, runId, isSafe }: { of: RunEvent; runId: string; isSafe: boolean }) {
  const [isOpen, setOpen] = useState(false)
  const isAdmin = useMay([])
  const { open, show, close } = useOpen<'erase'>()
  const Icon = isOpen ? ChevronDown : ChevronRight
  return (
    <li className="text-sm">
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary className="flex cursor-pointer flex-wrap items-center gap-x-3 px-3 py-1.5 hover:bg-raised">
          <Icon size={14} aria-hidden className="text-muted" />
          <span className="w-8 text-right text-muted">{of.seq + 1}</span>
          <span className="font-medium"><Text>{of.type.replaceAll('_', ' ')}</Text></span>
          {of.tool && <Text>{of.tool}</Text>}
          {of.step && <span className="text-muted">step <Text>{of.step}</Text></span>}
          {of.status !== 'recorded' && <span className="text-warn">{of.status}</span>}
          {isSafe && <span className="inline-flex items-center gap-1 rounded-full bg-good-ground px-2 text-xs text-good"><ShieldCheck size={12} aria-hidden /> last safe event</span>}
          <span className="ml-auto text-muted"><Text>{of.actor}</Text>{of.at && <> · <When at={of.at} /></>}</span>
        </summary>
        {isOpen && (
          <div className="space-y-2 px-3 pb-3">
            <div className="flex flex-wrap items-center gap-3 text-xs text-muted"><Id length={24}>{of.id}</Id> <Prove runId={runId} seq={of.seq} hash={of.id.replace('evt_', '')} /> <span className="flex items-center">as curl <Copy text={curlFor(HOME, runId, of.seq)} label="Copy as curl" /></span> {isAdmin && <Button look="bad" onClick={show('erase')}>Erase its values …</Button>}</div>
            <Json value={of} label={`Event ${of.seq + 1}`} />
            {open && <Erasing of={aRun(runId, of.seq)} onClose={close} />}
          </div>
        )}
      </details>
    </li>
  )
}
