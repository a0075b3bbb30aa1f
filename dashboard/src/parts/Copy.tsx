import { Check, Copy as CopyIcon } from 'lucide-react'
import { useState } from 'react'
import { Text } from './Text'
import { plainly } from './visible'

/** Copies a text, and says that it did. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false)
  const copy = async () => {
    await navigator.clipboard.writeText(text)
    setDone(true)
    setTimeout(() => setDone(false), 1500)
  }
  return (
    <button type="button" onClick={() => void copy()} aria-label={done ? 'Copied' : plainly(label)} title={plainly(label)} className="rounded p-1 text-muted hover:bg-raised hover:text-ink">
      {done ? <Check size={14} aria-hidden /> : <CopyIcon size={14} aria-hidden />}
    </button>
  )
}

/** Shows an id or a hash: its beginning, the whole on hover, and a way to copy it. */
export function Id({ children, length = 14 }: { children: string; length?: number }) {
  const short = children.length > length + 1 ? `${children.slice(0, length)}…` : children
  return (
    <span className="inline-flex max-w-full items-center gap-0.5 font-mono text-[0.92em]" title={plainly(children)}>
      <span className={length <= 20 ? 'whitespace-nowrap' : 'min-w-0 break-all'}><Text>{short}</Text></span>
      <Copy text={children} label={`Copy ${children}`} />
    </span>
  )
}
