import { X } from 'lucide-react'
import { useEffect, useId, useRef, type ReactNode } from 'react'
import { Text } from './Text'

/** Holds the keyboard until it is closed; the browser's own dialog, so that readers of screens know it. */
export function Dialog({ title, onClose, children, wide = false }: { title: string; onClose: () => void; children: ReactNode; wide?: boolean }) {
  const dialog = useRef<HTMLDialogElement>(null)
  const heading = useId()
  useEffect(() => {
    const opened = dialog.current
    opened?.showModal()
    // It would be the cross that closes: a space typed there closes, and what is typed next would decide something.
    opened?.querySelector<HTMLElement>('input, textarea, select')?.focus()
    return () => opened?.close()
  }, [])
  return (
    <dialog ref={dialog} aria-labelledby={heading} onClose={onClose} className={`w-full ${wide ? 'max-w-4xl' : 'max-w-lg'}`}>
      <div className="flex items-center justify-between border-b border-line px-4 py-3">
        <h2 id={heading} className="min-w-0 font-semibold break-words"><Text>{title}</Text></h2>
        <button type="button" onClick={onClose} aria-label="Close" className="rounded p-1 hover:bg-raised">
          <X size={18} aria-hidden />
        </button>
      </div>
      <div className="p-4">{children}</div>
    </dialog>
  )
}
