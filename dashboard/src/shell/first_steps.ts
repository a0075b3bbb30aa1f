/** Which steps of a demo were taken, in this visit of this browser. */

export type Step = 'tampered' | 'replay' | 'snippet' | 'hidden'

const PLACE = 'indelible.first-steps'

export function kept(): ReadonlySet<string> {
  try {
    return new Set((sessionStorage.getItem(PLACE) ?? '').split(','))
  } catch {
    return new Set() // a browser that keeps nothing is fine
  }
}

/** Notes a step, and gives all of them. */
export function done(step: Step): ReadonlySet<string> {
  const steps = new Set([...kept(), step])
  try {
    sessionStorage.setItem(PLACE, [...steps].join(','))
  } catch {
    // it holds until the page is left
  }
  return steps
}
