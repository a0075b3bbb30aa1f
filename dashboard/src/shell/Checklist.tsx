import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { Check, X } from 'lucide-react'
import { useState, type ReactNode } from 'react'
import { approvals, me } from '../api/asks'
import { api, told } from '../api/client'
import type { components } from '../api/schema'
import { filterOf } from '../pages/inbox/tabs'
import { Acting, useOpen } from '../parts/Acting'
import { Button } from '../parts/Button'
import { Command } from '../parts/Command'
import { Dialog } from '../parts/Dialog'
import { Json } from '../parts/Json'
import { useChecked } from '../record/checking'
import { done, kept, type Step } from './first_steps'
import { SNIPPETS } from './snippets'

/** Leads through the story of a demo in four steps; where the ledger is somebody's own, it is not there. */
export function Checklist() {
  const I = useQuery(me).data
  const [isHidden, setHidden] = useState(() => kept().has('hidden'))
  if (!I?.demo || isHidden) return null
  const hide = () => {
    done('hidden')
    setHidden(true)
  }
  return (
    <aside aria-label="First steps" className="print:hidden flex flex-wrap items-center gap-x-5 gap-y-2 border-b border-line bg-raised px-4 py-2 text-sm">
      <span className="font-semibold">A demo. Try:</span>
      <Steps demo={I.demo} name={I.name} />
      <button type="button" onClick={hide} aria-label="Hide the first steps" className="ml-auto rounded p-1 hover:bg-sunken"><X size={16} aria-hidden /></button>
    </aside>
  )
}

type Demo = components['schemas']['Demo']
type Call = components['schemas']['Begin']
const LINK = 'font-medium text-accent underline'

function Steps({ demo, name }: { demo: Demo; name: string }) {
  const [steps, setSteps] = useState(kept)
  const { open, show, close } = useOpen<'tamper' | 'repeat' | 'snippet'>()
  const tick = (step: Step) => setSteps(done(step))
  const hasDecided = (useInfiniteQuery(approvals(undefined, filterOf('mine', name))).data?.pages[0]?.approvals.length ?? 0) > 0
  const isTampered = useChecked().is === 'tampered'
  return (
    <ol className="contents">
      <Item number={1} isDone={hasDecided}><Link to="/inbox" search={{ tab: 'pending' }} className={LINK}>approve a refund</Link></Item>
      <Item number={2} isDone={isTampered || steps.has('tampered')}><button type="button" className={LINK} onClick={show('tamper')}>tamper, and verify</button></Item>
      <Item number={3} isDone={steps.has('replay')}><button type="button" className={LINK} onClick={show('repeat')}>see a replay</button></Item>
      <Item number={4} isDone={steps.has('snippet')}><button type="button" className={LINK} onClick={() => { tick('snippet'); show('snippet')() }}>put it around your agent</button></Item>
      {open === 'tamper' && <Tampering command={demo.tamper} onClose={() => { tick('tampered'); close() }} />}
      {open === 'repeat' && <Repeating call={demo.repeat} onDone={() => tick('replay')} onClose={close} />}
      {open === 'snippet' && <Snippets onClose={close} />}
    </ol>
  )
}

function Item({ number, isDone, children }: { number: number; isDone: boolean; children: ReactNode }) {
  return (
    <li className="flex items-center gap-1.5">
      <span className={`grid size-5 place-items-center rounded-full text-xs ${isDone ? 'bg-good-ground text-good' : 'bg-sunken'}`}>{isDone ? <Check size={13} aria-label="done" /> : number}</span>
      {children}
    </li>
  )
}

function Tampering({ command, onClose }: { command: string; onClose: () => void }) {
  return (
    <Dialog title="Tamper with the record" onClose={onClose}>
      <div className="space-y-3 text-sm">
        <p>You have the file of this demo. Change what it says behind the ledger’s back: this makes a charge of a recorded refund. Run it in a terminal:</p>
        <Command name="Change the record">{command}</Command>
        <p>Then look at the <Link to="/journal" onClick={onClose}>Journal</Link> and press <b>Verify now</b>. This browser computes every hash itself, and shows the row with what was expected and what was found.</p>
      </div>
    </Dialog>
  )
}

/** Makes a call again that was made before, as an agent would after a crash. */
function Repeating({ call, onDone, onClose }: { call: Demo['repeat']; onDone: () => void; onClose: () => void }) {
  const [found, setFound] = useState<{ id: string; attempt: number; outcome: unknown } | null>(null)
  const act = async () => {
    const answer = await told(api.POST('/v1/effects', { body: call as Call }))
    if (!('effect' in answer) || answer.effect.status !== 'succeeded') throw new Error('This call was not made before: begin the demo anew.')
    setFound(answer.effect)
    onDone()
  }
  if (found) return <Replayed of={found} onClose={onClose} />
  return (
    <Acting title="Make the same call again" verb="Refund again" needs={['agent']} act={act} onClose={onClose}>
      <p>This refund was done. An agent that crashed, or a model that repeats itself, asks for it once more: press the button, and you do.</p>
      <Json value={call} label="The call" />
    </Acting>
  )
}

function Replayed({ of, onClose }: { of: { id: string; attempt: number; outcome: unknown }; onClose: () => void }) {
  return (
    <Dialog title="Answered from the record" onClose={onClose}>
      <div role="status" className="space-y-3 text-sm">
        <p>The tool was entered {of.attempt === 1 ? 'once' : `${of.attempt} times`}, as before: nothing was refunded twice. You got what came of it then:</p>
        <Json value={of.outcome} label="The recorded answer" />
        <p><Link to="/effects/$effectId" params={{ effectId: of.id }} onClick={onClose}>Show the call</Link>. Repeats that were answered so are counted in the <Link to="/overview" onClick={onClose}>Overview</Link>.</p>
      </div>
    </Dialog>
  )
}

function Snippets({ onClose }: { onClose: () => void }) {
  const [chosen, setChosen] = useState(SNIPPETS[0]!)
  return (
    <Dialog title="Put it around your agent" onClose={onClose} wide>
      <div className="space-y-3 text-sm">
        <div role="group" aria-label="Framework" className="flex flex-wrap gap-1.5">
          {SNIPPETS.map((one) => (
            <Button key={one.name} look={one === chosen ? 'main' : 'plain'} aria-pressed={one === chosen} onClick={() => setChosen(one)}>{one.name}</Button>
          ))}
        </div>
        <Command name={`Install for ${chosen.name}`}>{chosen.install}</Command>
        <Command name={`Code for ${chosen.name}`}>{chosen.code}</Command>
        <p>{chosen.says}</p>
      </div>
    </Dialog>
  )
}
