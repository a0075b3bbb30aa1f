import { useMutation } from '@tanstack/react-query'
import { useState, type FormEvent, type ReactNode } from 'react'
import { useMay, type Scope } from '../api/may'
import { Button } from './Button'
import { Dialog } from './Dialog'
import { Trouble } from './Trouble'

type Props = {
  title: string
  /** What the button says that does it. */
  verb: string
  look?: 'main' | 'bad'
  isReady?: boolean
  /** Whoever has one of these scopes may do it, and so may administrators. */
  needs: readonly Scope[]
  wide?: boolean
  act: () => Promise<void>
  onClose: () => void
  children: ReactNode
}

/** Says what will happen, and does it when told so; what the server refuses is said here, in its words. */
export function Acting({ title, verb, look = 'main', isReady = true, needs, wide = false, act, onClose, children }: Props) {
  const acting = useMutation({ mutationFn: act })
  const may = useMay(needs)
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (isReady && may && !acting.isPending) acting.mutate()
  }
  return (
    <Dialog title={title} onClose={onClose} wide={wide}>
      <form onSubmit={submit} className="space-y-4 text-sm">
        {children}
        {!may && <p className="rounded-md bg-warn-ground p-2 text-warn">This takes the scope {[...needs, 'admin'].join(' or ')}, which you do not have. Somebody who has it can do it here.</p>}
        {acting.error && <Trouble error={acting.error} />}
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={onClose}>Not now</Button>
          <Button type="submit" look={look} disabled={!isReady || !may || acting.isPending}>{acting.isPending ? 'One moment …' : verb}</Button>
        </div>
      </form>
    </Dialog>
  )
}

const FIELD = 'w-full rounded-md border border-line bg-paper p-2'

/** Asks for a text of several lines. */
export function Asked({ label, hint, value, onChange, rows = 3, isCode = false, isFirst = false }: { label: string; hint?: string; value: string; onChange: (value: string) => void; rows?: number; isCode?: boolean; isFirst?: boolean }) {
  return (
    <label className="block space-y-1">
      <span className="font-medium">{label}</span>
      {hint && <span className="block text-muted">{hint}</span>}
      <textarea autoFocus={isFirst} rows={rows} maxLength={isCode ? 1_000_000 : 10_000} spellCheck={!isCode} value={value} onChange={(event) => onChange(event.target.value)} className={`${FIELD} ${isCode ? 'font-mono' : ''}`} />
    </label>
  )
}

/** Asks for a text of one line. */
export function AskedLine({ label, hint, value, onChange, kind = 'text' }: { label: string; hint?: string; value: string; onChange: (value: string) => void; kind?: 'text' | 'number' }) {
  return (
    <label className="block space-y-1">
      <span className="font-medium">{label}</span>
      {hint && <span className="block text-muted">{hint}</span>}
      <input type={kind} min={0} value={value} onChange={(event) => onChange(event.target.value)} className={FIELD} />
    </label>
  )
}

/** Does a thing over and over: a state for which dialog is open. */
export function useOpen<Name extends string>() {
  const [open, setOpen] = useState<Name | null>(null)
  return { open, show: (name: Name) => () => setOpen(name), close: () => setOpen(null) }
}
