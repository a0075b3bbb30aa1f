/** Numbers as they were sent: JavaScript would round a long one, and nobody may read another number than was recorded. */

/** Finds texts, which stay as they are, and whole numbers of sixteen digits or more. */
const TOKENS = /"(?:[^"\\]|\\.)*"|-?\d{16,}(?![\d.eE])/g
const MAY_HOLD_LONG = /[\s:,[]-?\d{16}/

/** Writes whole numbers that are too long for JavaScript as they are recorded: `{"$int": "9007199254740993"}`. */
export function exactly(json: string): string {
  if (!MAY_HOLD_LONG.test(json)) return json
  return json.replace(TOKENS, (token) => (token.startsWith('"') || Number.isSafeInteger(Number(token)) ? token : `{"$int":"${token}"}`))
}

/** Gives a long number as it reads, where a value is one. */
export function longNumber(value: unknown): string | null {
  if (typeof value !== 'object' || value === null) return null
  const members = Object.entries(value)
  return members.length === 1 && members[0]![0] === '$int' && typeof members[0]![1] === 'string' ? members[0]![1] : null
}
