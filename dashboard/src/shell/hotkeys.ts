/** Keys that do something on the page: single ones, and sequences such as `g i`. Never while somebody types. */

import { useEffect, useRef, type RefObject } from 'react'

export type Hotkeys = Readonly<Record<string, (event: KeyboardEvent) => void>>

const PATIENCE = 1000

/** All parts of the page that have keys, the newest last. */
const parts: RefObject<Hotkeys>[] = []
let before = ''
let at = 0

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName))
}

/** Finds what a key means: as the end of a sequence first, wherever that is known, so that `g j` never moves a list. */
function meaningOf(...names: string[]): Hotkeys[string] | undefined {
  for (const name of names) {
    const part = parts.findLast((one) => one.current[name])
    if (part) return part.current[name]
  }
  return undefined
}

function pressed(event: KeyboardEvent): void {
  const isPalette = event.key === 'k' && (event.ctrlKey || event.metaKey)
  if (event.defaultPrevented || (!isPalette && (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)))) return
  if (!isPalette && document.querySelector('dialog[open]')) return // a dialog has the keyboard for itself
  const name = isPalette ? 'mod+k' : event.key
  const act = event.timeStamp - at < PATIENCE ? meaningOf(`${before} ${name}`, name) : meaningOf(name)
  ;[before, at] = [act ? '' : name, event.timeStamp]
  if (!act) return
  event.preventDefault()
  act(event)
}

/** Gives the keys their meaning as long as the component is there. */
export function useHotkeys(keys: Hotkeys): void {
  const meant = useRef(keys)
  meant.current = keys
  useEffect(() => {
    if (parts.length === 0) addEventListener('keydown', pressed)
    parts.push(meant)
    return () => {
      parts.splice(parts.indexOf(meant), 1)
      if (parts.length === 0) removeEventListener('keydown', pressed)
    }
  }, [])
}
