/** Keys that do something on the page: single ones, and sequences such as `g i`. Never while somebody types. */

import { useEffect, useRef } from 'react'

export type Hotkeys = Readonly<Record<string, (event: KeyboardEvent) => void>>

const PATIENCE = 1000

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
}

/** Gives the keys their meaning as long as the component is there. */
export function useHotkeys(keys: Hotkeys): void {
  const meant = useRef(keys)
  meant.current = keys
  useEffect(() => {
    let before = ''
    let at = 0
    const pressed = (event: KeyboardEvent) => {
      const isPalette = event.key === 'k' && (event.ctrlKey || event.metaKey)
      if (event.defaultPrevented || (!isPalette && (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)))) return
      if (!isPalette && document.querySelector('dialog[open]')) return // a dialog has the keyboard for itself
      const name = isPalette ? 'mod+k' : event.key
      const sequence = event.timeStamp - at < PATIENCE ? `${before} ${name}` : name
      const act = meant.current[sequence] ?? meant.current[name]
      ;[before, at] = [name, event.timeStamp]
      if (!act) return
      event.preventDefault()
      before = ''
      act(event)
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [])
}
