import { useNavigate } from '@tanstack/react-router'
import { Command } from 'cmdk'
import { Dialog } from '../parts/Dialog'
import { PAGES } from './pages'
import { change, type Theme } from './settings'

const ITEM = 'cursor-pointer rounded-md px-3 py-2 text-sm data-[selected=true]:bg-sunken'
const THEMES: [Theme, string][] = [['light', 'Light'], ['dark', 'Dark'], ['system', 'Light or dark as the system has it']]

/** Goes anywhere by its name. */
export function Palette({ onClose }: { onClose: () => void }) {
  const go = useNavigate()
  const then = (act: () => void) => () => {
    onClose()
    act()
  }
  return (
    <Dialog title="Find or go to …" onClose={onClose}>
      <Command label="Find or go to" loop>
        <Command.Input autoFocus placeholder="a page, a theme …" className="mb-2 w-full rounded-md border border-line bg-paper px-3 py-2" />
        <Command.List className="max-h-80 overflow-auto">
          <Command.Empty className="p-3 text-sm text-muted">Nothing has such a name.</Command.Empty>
          {PAGES.map((page) => (
            <Command.Item key={page.to} value={page.name} onSelect={then(() => void go({ to: page.to }))} className={ITEM}>
              {page.name}
            </Command.Item>
          ))}
          {THEMES.map(([theme, name]) => (
            <Command.Item key={theme} value={`Theme: ${name}`} onSelect={then(() => change({ theme }))} className={ITEM}>
              Theme: {name}
            </Command.Item>
          ))}
        </Command.List>
      </Command>
    </Dialog>
  )
}
