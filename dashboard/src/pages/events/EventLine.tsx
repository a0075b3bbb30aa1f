import { Link } from '@tanstack/react-router'
import { ChevronDown, ChevronRight } from 'lucide-react'
import type { Entry } from '../../api/asks'
import { HOME } from '../../api/client'
import { Copy, Id } from '../../parts/Copy'
import { Json } from '../../parts/Json'
import { Prove } from '../../parts/Prove'
import { curlFor } from '../../parts/quoting'
import { Text } from '../../parts/Text'
import { When } from '../../parts/When'

/** Events that tell of work done; only these move a run's last safe event. */
const PROGRESS = new Set(['plan_locked', 'tool_call_finished', 'artifact_created', 'policy_checked', 'approval_received', 'execution_succeeded', 'delegation_finished', 'run_completed'])

type Body = { at?: string; tool?: string; status?: string; side_effect?: string; actor?: { id?: string } }

/** Shows one event of the journal, and everything it says when it is opened. */
export function EventLine({ of, isOpen, onToggle }: { of: Entry; isOpen: boolean; onToggle: () => void }) {
  const body = of.body as Body
  const Icon = isOpen ? ChevronDown : ChevronRight
  const isProgress = PROGRESS.has(of.type)
  return (
    <div className="text-sm hover:bg-raised">
      <div className="flex min-h-[33px] items-center gap-2 px-3 whitespace-nowrap max-md:flex-wrap max-md:py-1">
        <button type="button" aria-expanded={isOpen} aria-label={`Show event ${of.index ?? of.seq}`} onClick={onToggle} className="rounded p-0.5 text-muted hover:bg-sunken"><Icon size={14} aria-hidden /></button>
        <span className="w-14 shrink-0 text-right text-xs text-muted">#{of.index}</span>
        <span className={`size-2 shrink-0 rounded-full border ${isProgress ? 'border-good bg-good' : 'border-muted'}`} role="img" aria-label={isProgress ? 'progress' : 'no progress'} title={isProgress ? 'tells of work done' : 'tells of no work done'} />
        <span className={`shrink-0 font-medium ${/doubt|denied|failed|expired|late/.test(of.type) ? 'text-warn' : ''}`}><Text>{of.type.replaceAll('_', ' ')}</Text></span>
        {body.tool && (of.effect_id ? <Link to="/effects/$effectId" params={{ effectId: of.effect_id }} className="truncate"><Text>{body.tool}</Text></Link> : <span className="truncate"><Text>{body.tool}</Text></span>)}
        {body.status && <span className="text-xs text-muted max-md:hidden"><Text>{body.status.replaceAll('_', ' ')}</Text></span>}
        <span className="ml-auto flex min-w-0 items-center gap-3 text-right text-xs text-muted max-md:basis-full max-md:pl-24">
          <Link to="/runs/$runId" params={{ runId: of.run_id }} search={{ line: of.seq }} className="min-w-0 truncate max-md:flex-1 max-md:text-left md:w-44"><Text>{of.run_id}</Text></Link>
          <span className="w-28 truncate max-md:hidden">{body.actor?.id && <Text>{body.actor.id}</Text>}</span>
          {body.at && <span className="shrink-0 md:w-24"><When at={body.at} /></span>}
        </span>
      </div>
      {isOpen && (
        <div className="space-y-2 px-10 pb-3 max-md:px-3">
          <div className="flex flex-wrap items-center gap-4 text-xs text-muted">
            <span>hash <Id length={24}>{of.hash}</Id> <Prove runId={of.run_id} seq={of.seq} hash={of.hash} /></span>
            <span className="flex items-center">as curl, without a token <Copy text={curlFor(HOME, of.run_id, of.seq)} label="Copy as curl" /></span>
          </div>
          <Json value={of.body} label={`Event ${of.index ?? of.seq}`} />
        </div>
      )}
    </div>
  )
}
