/** Which presses count when somebody decides: a press of its own, of what has been in view for a moment. */

/** Is how long something has to be in view before it can be answered, in milliseconds. */
export const MOMENT = 600
/** Is how long before a press nothing may have been pressed, in milliseconds: a key that repeats leaves no such pause. */
export const QUIET = 300
/** Is for how long after a decision no key counts, in milliseconds. */
export const AFTER_DECISION = 1000

/** What a person holds down, and what they pressed last. */
export type Hand = {
  readonly held: ReadonlySet<string>
  /** When the newest press was. */
  readonly at: number
  /** The newest press is no repeat: the key was up before. */
  readonly isOwn: boolean
  /** It is one of its own, and a pause was before it. */
  readonly isFresh: boolean
  /** Something was done because of it. */
  readonly isTaken: boolean
}

export const IDLE: Hand = { held: new Set(), at: Number.NEGATIVE_INFINITY, isOwn: false, isFresh: false, isTaken: true }

/** Return the hand after a press; a pointer has no key. */
export function pressed(hand: Hand, key: string | null, at: number, isRepeat = false): Hand {
  const isOwn = !isRepeat && !(key !== null && hand.held.has(key))
  return { held: key === null ? hand.held : new Set([...hand.held, key]), at, isOwn, isFresh: isOwn && at - hand.at >= QUIET, isTaken: false }
}

/** Return the hand after a key was let go of. */
export function released(hand: Hand, key: string): Hand {
  return { ...hand, held: new Set([...hand.held].filter((one) => one !== key)) }
}

/** Return the hand whose newest press does something now; a click that no press led to is a press itself. */
export function taken(hand: Hand, at: number): Hand {
  return { ...(hand.isTaken ? pressed(hand, null, at) : hand), isTaken: true }
}

/** Does the newest press count at all: is it no repeat, and not right after a decision? */
export function counts(hand: Hand, decidedAt: number): boolean {
  return hand.isOwn && hand.at - decidedAt >= AFTER_DECISION
}

/** Since when everything that is asked is in view, and since when the page asks for the second press. */
export type View = { readonly seenAt: number | null; readonly armedAt: number | null }

/** Says what a press of an approving button means: the first arms, the second confirms, and most others nothing. */
export function meaningOf(hand: Hand, { seenAt, armedAt }: View, decidedAt: number): 'arm' | 'confirm' | null {
  const since = armedAt ?? seenAt
  if (since === null || seenAt === null || !hand.isFresh || !counts(hand, decidedAt) || hand.at - since < MOMENT) return null
  return armedAt === null ? 'arm' : 'confirm'
}
