/** Where a moment stands on a line of time from which the idle stretches are folded away. */

/** A stretch in which nothing happened is folded when it is at least so long, in milliseconds. */
export const SHORTEST = 2000
/** Is how much of the width one fold takes, and all of them at most. */
const FOLD = 0.06
const FOLDS = 0.4

export type Fold = { readonly from: number; readonly to: number; readonly left: number; readonly right: number }

type Piece = { readonly from: number; readonly to: number; readonly left: number; readonly right: number; readonly isFolded: boolean }

/** Is a stretch of time that is looked at alone. */
export type Closer = { readonly from: number; readonly to: number }

/** Is how much of the whole is drawn at least, so that nobody gets lost. */
const CLOSEST = 0.0005

export class Scale {
  readonly folds: readonly Fold[]
  /** Says whether only a part of the time is drawn. */
  readonly isCloser: boolean
  readonly #pieces: readonly Piece[]
  readonly #first: number
  readonly #share: number
  /** Is the one moment of a run in which nothing else happened. */
  readonly #only: number

  /** Lays out the time between the first and the last of these moments; `closer`, all room is for a part of it. */
  constructor(moments: readonly number[], isFolding: boolean, closer: Closer | null = null) {
    const sorted = [...new Set(moments)].sort((one, other) => one - other)
    this.#pieces = laidOut(sorted, isFolding)
    this.#only = sorted[0] ?? 0
    const [first, last] = closer ? [this.#whole(closer.from), this.#whole(closer.to)] : [0, 1]
    this.isCloser = closer !== null && last - first >= CLOSEST
    ;[this.#first, this.#share] = this.isCloser ? [first, last - first] : [0, 1]
    const within = (place: number) => (place - this.#first) / this.#share
    this.folds = this.#pieces.filter((piece) => piece.isFolded).map((piece) => ({ ...piece, left: within(piece.left), right: within(piece.right) })).filter(({ left, right }) => right > 0 && left < 1)
  }

  /** Gives the place of a moment, from 0 to 1; what is not in the part that is drawn lies before or after. */
  place(moment: number): number {
    return (this.#whole(moment) - this.#first) / this.#share
  }

  /** Gives the moment at a place. */
  moment(place: number): number {
    const sought = Math.min(1, Math.max(0, this.#first + place * this.#share))
    const piece = this.#pieces.find((one) => sought <= one.right) ?? this.#pieces.at(-1)
    if (!piece) return this.#only
    return piece.right === piece.left ? piece.from : piece.from + ((sought - piece.left) / (piece.right - piece.left)) * (piece.to - piece.from)
  }

  /** Gives the stretch that is `times` as wide as what is drawn, around its middle; null where that is all of it. */
  around(times: number): Closer | null {
    const [from, to] = [0.5 - times / 2, 0.5 + times / 2]
    const share = this.#share * times
    if (share < CLOSEST) return { from: this.moment(0), to: this.moment(1) }
    return share >= 1 ? null : { from: this.moment(from), to: this.moment(to) }
  }

  #whole(moment: number): number {
    const last = this.#pieces.at(-1)
    if (!last) return 0
    if (moment >= last.to) return 1
    const piece = this.#pieces[this.#find(moment)]!
    if (moment <= piece.from) return piece.left
    return piece.left + ((moment - piece.from) / (piece.to - piece.from)) * (piece.right - piece.left)
  }

  #find(moment: number): number {
    let [low, high] = [0, this.#pieces.length - 1]
    while (low < high) {
      const middle = Math.ceil((low + high) / 2)
      if (this.#pieces[middle]!.from <= moment) low = middle
      else high = middle - 1
    }
    return low
  }
}

/** Says which gaps are idle time: longer than everything that is shorter, taken together. So it holds at every scale. */
export function idle(gaps: readonly number[]): boolean[] {
  const isIdle = gaps.map(() => false)
  let busy = 0
  for (const index of gaps.map((_, at) => at).sort((one, other) => gaps[one]! - gaps[other]!)) {
    const gap = gaps[index]!
    if (gap >= SHORTEST && gap > busy && gaps.length > 1) isIdle[index] = true
    else busy += gap
  }
  return isIdle
}

function laidOut(moments: readonly number[], isFolding: boolean): Piece[] {
  const gaps = moments.slice(1).map((moment, index) => moment - moments[index]!)
  const isIdle = isFolding ? idle(gaps) : gaps.map(() => false)
  const count = isIdle.filter(Boolean).length
  const busy = gaps.reduce((sum, gap, index) => sum + (isIdle[index] ? 0 : gap), 0)
  const fold = count === 0 ? 0 : busy === 0 ? 1 / count : Math.min(FOLD, FOLDS / count)
  const room = 1 - fold * count
  const pieces: Piece[] = []
  let left = 0
  gaps.forEach((gap, index) => {
    const width = isIdle[index] ? fold : (gap / busy) * room
    pieces.push({ from: moments[index]!, to: moments[index + 1]!, left, right: left + width, isFolded: isIdle[index]! })
    left += width
  })
  return pieces
}

/** Is how close two bars are drawn as one: less than a screen can show apart. */
const TOGETHER = 0.002

/** Joins bars that touch, so that thousands of calls in one line are a few hundred at most. */
export function joined(bars: readonly (readonly [number, number])[]): [number, number][] {
  const found: [number, number][] = []
  for (const [from, to] of [...bars].sort((one, other) => one[0] - other[0])) {
    const last = found.at(-1)
    if (last && from <= last[1] + TOGETHER) last[1] = Math.max(last[1], to)
    else found.push([from, to])
  }
  return found
}
