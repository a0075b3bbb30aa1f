import { CircleQuestionMark, Pause, Play, Search, Unplug } from 'lucide-react'
import { setLive, useLive } from '../api/live'
import { Integrity } from './Integrity'
import { change, useSettings } from './settings'

export function TopBar({ onAsk, onHelp }: { onAsk: () => void; onHelp: () => void }) {
  return (
    <header className="print:hidden flex flex-wrap items-center gap-2 border-b border-line px-3 py-2 text-sm">
      <button type="button" onClick={onAsk} className="flex min-w-40 flex-1 items-center gap-2 rounded-md border border-line px-2 py-1 text-left text-muted hover:bg-raised md:max-w-md">
        <Search size={15} aria-hidden /> Find or go to … <kbd className="ml-auto text-xs max-md:hidden">Ctrl K</kbd>
      </button>
      <div className="ml-auto flex flex-wrap items-center justify-end gap-x-2 gap-y-1">
        <Zone />
        <LiveButton />
        <Integrity />
        <button type="button" onClick={onHelp} aria-label="Keys and help" className="rounded p-1 hover:bg-raised">
          <CircleQuestionMark size={17} aria-hidden />
        </button>
      </div>
    </header>
  )
}

function Zone() {
  const { zone } = useSettings()
  return (
    <button type="button" onClick={() => change({ zone: zone === 'utc' ? 'local' : 'utc' })} className="rounded px-1.5 py-1 text-muted hover:bg-raised" title="In which zone times are written">
      {zone === 'utc' ? 'UTC' : 'local time'}
    </button>
  )
}

function LiveButton() {
  const state = useLive()
  const [Icon, words, tone] = ({
    joining: [Pause, 'connecting …', 'text-muted'],
    live: [Pause, 'live', 'text-good'],
    paused: [Play, 'paused', 'text-muted'],
    lost: [Unplug, 'not connected', 'text-bad'],
  } as const)[state]
  return (
    <button type="button" onClick={() => setLive(state === 'paused')} className={`flex items-center gap-1 rounded px-1.5 py-1 hover:bg-raised ${tone}`} title={state === 'paused' ? 'Let news come' : 'Stop the news'}>
      <Icon size={14} aria-hidden /> {words}
    </button>
  )
}
