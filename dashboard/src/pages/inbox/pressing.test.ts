import { describe, expect, it } from 'vitest'
import { AFTER_DECISION, IDLE, meaningOf, MOMENT, pressed, QUIET, released, taken, counts, type Hand } from './pressing'

const NEVER = Number.NEGATIVE_INFINITY
const LONG_AGO = { seenAt: 0, armedAt: null }
const ARMED = { seenAt: 0, armedAt: 5000 }

/** Holds a key for five seconds, and gives the hand at each of its repeats. */
function* holding(isTold: boolean, first = 10_000): Generator<Hand> {
  let hand = pressed(IDLE, 'KeyA', first)
  for (let at = first + 500; at < first + 5000; at += 33) {
    if (!isTold) hand = released(hand, 'KeyA') // as remote desktops repeat: up, down, up, down
    hand = pressed(hand, 'KeyA', at, isTold)
    yield hand
  }
}

describe('a key that is held', () => {
  it('confirms nothing, whether or not the browser calls it a repeat', () => {
    for (const hand of holding(true)) expect(meaningOf(hand, ARMED, NEVER)).toBeNull()
    const armedBy = { seenAt: 0, armedAt: 10_000 }
    for (const hand of holding(false)) expect(meaningOf(hand, armedBy, NEVER)).toBeNull()
  })
  it('is no press of its own before it was let go of', () => {
    const hand = pressed(IDLE, 'KeyA', 1000)
    expect(pressed(hand, 'KeyA', 9000).isOwn).toBe(false)
    expect(pressed(released(hand, 'KeyA'), 'KeyA', 9000).isOwn).toBe(true)
    expect(pressed(IDLE, 'KeyA', 9000, true).isOwn).toBe(false) // it was held before the page was there
  })
})

describe('a press', () => {
  const hand = pressed(IDLE, 'KeyA', 10_000)
  it('arms what has been in view for a moment, and nothing sooner', () => {
    expect(meaningOf(hand, LONG_AGO, NEVER)).toBe('arm')
    expect(meaningOf(hand, { seenAt: 10_000 - MOMENT, armedAt: null }, NEVER)).toBe('arm')
    expect(meaningOf(hand, { seenAt: 10_001 - MOMENT, armedAt: null }, NEVER)).toBeNull()
    expect(meaningOf(hand, { seenAt: null, armedAt: null }, NEVER)).toBeNull()
    expect(meaningOf(hand, { seenAt: null, armedAt: 1 }, NEVER)).toBeNull()
  })
  it('confirms when the question to press again has been in view for a moment', () => {
    expect(meaningOf(hand, { seenAt: 0, armedAt: 10_000 - MOMENT }, NEVER)).toBe('confirm')
    expect(meaningOf(hand, { seenAt: 0, armedAt: 10_001 - MOMENT }, NEVER)).toBeNull()
  })
  it('counts only after a pause, and every press that comes too early begins the pause anew', () => {
    const again = (after: number) => pressed(released(hand, 'KeyA'), 'KeyA', 10_000 + after)
    expect(meaningOf(again(QUIET - 1), ARMED, NEVER)).toBeNull()
    expect(meaningOf(again(QUIET), ARMED, NEVER)).toBe('confirm')
    expect(meaningOf(pressed(pressed(hand, null, 10_200), null, 10_400), ARMED, NEVER)).toBeNull()
  })
  it('counts for nothing within a second after a decision', () => {
    expect(meaningOf(hand, ARMED, 10_001 - AFTER_DECISION)).toBeNull()
    expect(meaningOf(hand, ARMED, 10_000 - AFTER_DECISION)).toBe('confirm')
    expect(counts(hand, 10_001 - AFTER_DECISION)).toBe(false)
    expect(counts(hand, 10_000 - AFTER_DECISION)).toBe(true)
  })
})

describe('a click', () => {
  it('is the press that led to it, and a press itself where none did', () => {
    const hand = pressed(IDLE, null, 10_000)
    expect(taken(hand, 10_050).at).toBe(10_000)
    expect(taken(taken(hand, 10_050), 12_000)).toMatchObject({ at: 12_000, isFresh: true, isTaken: true })
    expect(taken(taken(hand, 10_050), 10_200).isFresh).toBe(false)
  })
  it('of a double click does not confirm', () => {
    const first = taken(pressed(IDLE, null, 10_000), 10_050)
    const second = taken(pressed(first, null, 10_400), 10_450)
    expect(meaningOf(first, LONG_AGO, NEVER)).toBe('arm')
    expect(meaningOf(second, { seenAt: 0, armedAt: 10_060 }, NEVER)).toBeNull()
  })
})
