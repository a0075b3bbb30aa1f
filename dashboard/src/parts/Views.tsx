import { Link, useLocation } from '@tanstack/react-router'
import { Bookmark, X } from 'lucide-react'
import { useState, type FormEvent } from 'react'
import { HOME } from '../api/client'
import { AskedLine, useOpen } from './Acting'
import { Button } from './Button'
import { Copy } from './Copy'
import { Dialog } from './Dialog'
import { Text } from './Text'
import { dropView, LONGEST, placeOf, saveView, useViews } from './saved_views'
import { plainly } from './visible'

/** Offers to keep a list as it is filtered now, under a name, and to come back to others. */
export function Views() {
  const { open, show, close } = useOpen<'views'>()
  return (
    <>
      <Button onClick={show('views')} aria-label="Views …" className="h-8.5 max-md:px-2"><Bookmark size={15} aria-hidden /> <span className="max-md:hidden">Views …</span></Button>
      {open && <Keeping onClose={close} />}
    </>
  )
}

function Keeping({ onClose }: { onClose: () => void }) {
  const here = useLocation({ select: ({ pathname, searchStr }) => pathname + searchStr })
  const views = useViews()
  const [name, setName] = useState(views.find((one) => one.href === here)?.name ?? '')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    if (!name.trim()) return
    saveView({ name: name.trim(), href: here })
    onClose()
  }
  return (
    <Dialog title="Saved views" onClose={onClose}>
      <form onSubmit={submit} className="space-y-3 text-sm">
        <p>A view is this list as it is filtered now. Its name is kept in this browser; its address can be handed to anybody.</p>
        <AskedLine label="Name of this view" value={name} onChange={(text) => setName(text.slice(0, LONGEST))} />
        <div className="flex flex-wrap justify-end gap-2">
          <span className="mr-auto flex items-center text-muted">address <Copy text={new URL(here.slice(1), HOME).href} label="Copy the address of this view" /></span>
          <Button type="submit" look="main" disabled={!name.trim()}>{views.some((one) => one.name === name.trim()) ? 'Replace it' : 'Save it'}</Button>
        </div>
      </form>
      {views.length > 0 && (
        <ul aria-label="Saved views" className="mt-4 divide-y divide-line border-t border-line text-sm">
          {views.map((view) => (
            <li key={view.name} className="flex items-center justify-between gap-2 py-1.5">
              <Link {...placeOf(view)} onClick={onClose} className="min-w-0 truncate"><Text>{view.name}</Text></Link>
              <button type="button" aria-label={`Forget the view ${plainly(view.name)}`} onClick={() => dropView(view.name)} className="rounded p-1 text-muted hover:bg-raised"><X size={14} aria-hidden /></button>
            </li>
          ))}
        </ul>
      )}
    </Dialog>
  )
}
