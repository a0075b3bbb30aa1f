/** The hand of whoever looks at the inbox, and buttons that take two presses of it. */

import { useEffect, useRef, useState } from 'react'
import { AFTER_DECISION, counts, IDLE, meaningOf, MOMENT, pressed, released, taken } from './pressing'

let hand = IDLE
let decidedAt = Number.NEGATIVE_INFINITY

/** Notes every press as long as the inbox is there, before the page's own keys hear of it. With Meta, macOS tells of no release. */
export function useHand(): void {
  useEffect(() => {
    const ending = new AbortController()
    const options = { capture: true, signal: ending.signal }
    addEventListener('keydown', (event) => (hand = pressed(hand, event.metaKey ? null : event.code || event.key, event.timeStamp, event.repeat)), options)
    addEventListener('keyup', (event) => (hand = released(hand, event.code || event.key)), options)
    addEventListener('pointerdown', (event) => (hand = pressed(hand, null, event.timeStamp)), options)
    addEventListener('blur', () => (hand = { ...hand, held: IDLE.held }), options) // what is let go of elsewhere is not told here
    return () => ending.abort()
  }, [])
}

/** Notes that something is decided. */
export function noteDecision(): void {
  decidedAt = performance.now()
}

/** Does the press that asks for something count? A repeat does not, and none does for a second after a decision. */
export function isMeant(): boolean {
  hand = taken(hand, performance.now())
  return counts(hand, decidedAt)
}

/** Does something at the second press; `shown` names what is in view from its first to its last line, if it is. */
export function useTwoPresses(shown: string | null, act: () => void) {
  const [armed, setArmed] = useState<string | null>(null)
  const [heard, setHeard] = useState<string | null>(null)
  const view = useRef<{ seenAt: number | null; armedAt: number | null }>({ seenAt: null, armedAt: null })
  const isArmed = shown !== null && armed === shown
  const next = `${isArmed} ${shown}` // what the next press would answer
  useEffect(() => {
    view.current = { seenAt: shown === null ? null : performance.now(), armedAt: null }
    setArmed(null) // what was armed for something else is not armed
  }, [shown])
  useEffect(() => {
    view.current.armedAt = isArmed ? performance.now() : null
    setHeard(null)
    const wait = Math.max(MOMENT, decidedAt + AFTER_DECISION - performance.now())
    const timer = setTimeout(() => setHeard(next), wait)
    return () => clearTimeout(timer)
  }, [next, isArmed])
  const press = () => {
    hand = taken(hand, performance.now())
    const meaning = meaningOf(hand, view.current, decidedAt)
    if (meaning === 'arm') setArmed(shown)
    if (meaning !== 'confirm') return
    setArmed(null)
    noteDecision()
    act()
  }
  return { isArmed, isListening: heard === next, press, disarm: () => setArmed(null) }
}
