import { Dialog } from '../parts/Dialog'
import { PAGES } from './pages'

const KEYS: [string, string][] = [
  ['j, k', 'next, previous'],
  ['Enter', 'open'],
  ['a, then a again', 'approve what is shown; let go of the key in between'],
  ['d', 'deny, with a reason'],
  ['/', 'filter'],
  ['+, -, 0', 'look closer at the time of a run, from further away, at all of it'],
  ['Ctrl K', 'find, or go anywhere'],
  ['?', 'this'],
  ['Esc', 'close'],
]

export function Help({ onClose }: { onClose: () => void }) {
  return (
    <Dialog title="Keys" onClose={onClose}>
      <dl className="grid grid-cols-[max-content_1fr] gap-x-6 gap-y-2 text-sm">
        {[...KEYS, ...PAGES.map((page) => [`g ${page.key}`, `go to ${page.name}`] as const)].map(([keys, meaning]) => (
          <div key={keys} className="contents">
            <dt><kbd>{keys}</kbd></dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  )
}
