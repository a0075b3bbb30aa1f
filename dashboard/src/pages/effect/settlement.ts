/** What a person tells about an effect in doubt, checked before it is sent. */

export type Told = { readonly became: 'succeeded' | 'failed' | null; readonly value: string; readonly error: string; readonly evidence: string }
export type Outcome = { status: 'succeeded'; value: unknown } | { status: 'failed'; error: string; error_type: string }

/** Gives the outcome that is meant, or says what is missing. */
export function outcomeOf(told: Told): { outcome: Outcome; evidence: string } | { lacks: string } {
  const evidence = told.evidence.trim()
  if (told.became === null) return { lacks: 'Say what became of it.' }
  if (told.became === 'failed' && told.error.trim() === '') return { lacks: 'Say what went wrong.' }
  const outcome = told.became === 'failed' ? ({ status: 'failed', error: told.error.trim(), error_type: 'Error' } as const) : read(told.value)
  if ('lacks' in outcome) return outcome
  return evidence ? { outcome, evidence } : { lacks: 'Say how you know.' }
}

function read(value: string): Outcome | { lacks: string } {
  if (value.trim() === '') return { status: 'succeeded', value: null }
  try {
    return { status: 'succeeded', value: JSON.parse(value) as unknown }
  } catch {
    return { lacks: 'The result is no JSON; a text needs quotes around it.' }
  }
}
