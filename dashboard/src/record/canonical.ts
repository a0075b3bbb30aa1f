/** The one text of a JSON value (RFC 8785): what hashes are of. */

/** Writes a value as it is hashed: members in the order of their names, no space, numbers as JavaScript writes them. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)) // by UTF-16, as the RFC wants it
    return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
  }
  return JSON.stringify(value)
}

/** Reads a value from its one text; null when the text is not the one that would be written of it again. */
export function readCanonical(text: string): { readonly value: unknown } | null {
  try {
    const value: unknown = JSON.parse(text)
    // Half of a letter is none. Two backslashes are one that is meant: the letters after it are no escape.
    const isOne = canonical(value) === text && !/\\u[dD]/.test(text.replaceAll('\\\\', ''))
    return isOne ? { value } : null
  } catch {
    return null
  }
}

const DATE = '(?!0000)(?:[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))|(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)'
const CLOCK = '(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]'
const FRACTION = '(?:\\.(?!000000)[0-9]{6})?'

/** Is a moment that exists, as events write it. */
export const INSTANT = new RegExp(`^${DATE}T${CLOCK}\\.[0-9]{6}Z$`)

const BASE64 = '(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/][AQgw]==|[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=)?'
// What JSON cannot say is an object with one tag, and a text that has one form.
const TAGS: Readonly<Record<string, (text: string) => boolean>> = {
  $int: (text) => /^-?[1-9][0-9]{15,4299}$/.test(text) && BigInt(text) ** 2n > BigInt(Number.MAX_SAFE_INTEGER) ** 2n,
  $decimal: isDecimal,
  $datetime: (text) => new RegExp(`^${DATE}T${CLOCK}${FRACTION}Z?$`).test(text),
  $date: (text) => new RegExp(`^${DATE}$`).test(text),
  $time: (text) => new RegExp(`^${CLOCK}${FRACTION}$`).test(text),
  $duration: (text) => /^(?:0|-?[1-9][0-9]{0,19})$/.test(text) && isDuration(BigInt(text)),
  $uuid: (text) => /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/.test(text),
  $bytes: (text) => new RegExp(`^${BASE64}$`).test(text),
  $redacted: (text) => /^[0-9a-f]{64}$/.test(text),
  $encrypted: (text) => new RegExp(`^${BASE64}$`).test(text) && atob(text).length >= 53 && atob(text).startsWith('\x01'),
}

const LARGEST_EXPONENT = 10n ** 18n - 1n
const SMALLEST_LAST = -2n * 10n ** 18n + 3n // the place of the last digit that a decimal has

function isDuration(microseconds: bigint): boolean {
  const day = 86_400_000_000n
  return microseconds >= -999_999_999n * day && microseconds < 1_000_000_000n * day
}

/** Decimals have no zeros at their end, and an exponent only to save more than 20 zeros. */
function isDecimal(text: string): boolean {
  if (text === '0') return true
  const scientific = /^-?([1-9])(?:\.([0-9]*[1-9]))?E([+-])([1-9][0-9]{0,18})$/.exec(text)
  if (scientific) {
    const exponent = BigInt(`${scientific[3]}${scientific[4]}`)
    const last = exponent - BigInt(scientific[2]?.length ?? 0)
    return (last > 20n || exponent < -21n) && exponent <= LARGEST_EXPONENT && last >= SMALLEST_LAST
  }
  if (/^-?[1-9][0-9]*$/.test(text)) return /^-?[0-9]*?[1-9]0{0,20}$/.test(text)
  return /^-?(?:[1-9][0-9]*\.[0-9]*[1-9]|0\.0{0,20}[1-9](?:[0-9]*[1-9])?)$/.test(text)
}

export const MOST_DEEP = 64

/** Says whether a value that an event commits to is written in its one way: plain JSON, and tags for what it cannot say. */
export function isRecorded(text: string): boolean {
  const read = readCanonical(text)
  return read !== null && isForm(read.value, MOST_DEEP)
}

/** Says whether an object stands for what JSON cannot say. */
export function isTagged(value: object): boolean {
  const names = Object.keys(value)
  return names.length === 1 && Object.hasOwn(TAGS, names[0]!)
}

function isForm(value: unknown, levels: number): boolean {
  if (typeof value === 'number') return Number.isFinite(value)
  if (typeof value !== 'object' || value === null) return true
  const members = Object.entries(value)
  if (isTagged(value)) return members.every(([tag, text]) => typeof text === 'string' && TAGS[tag]!(text)) // no level
  if (levels === 0) return false
  if (Array.isArray(value)) return value.every((one) => isForm(one, levels - 1))
  return members.every(([name, one]) => (!name.startsWith('$') || name.startsWith('$$')) && isForm(one, levels - 1))
}
