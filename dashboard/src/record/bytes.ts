/** Bytes, and the one hash that the record is made of. */

export type Bytes = Uint8Array<ArrayBuffer>

/** Says that something is not what it should be: the record, or what was handed over as one, was changed. */
export class Caught extends Error {}

const encoder = new TextEncoder()
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

export function utf8(text: string): Bytes {
  return encoder.encode(text)
}

/** Reads UTF-8 strictly; null when it is none. */
export function textOf(bytes: Bytes): string | null {
  try {
    return decoder.decode(bytes)
  } catch {
    return null
  }
}

export function concat(...parts: Bytes[]): Bytes {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    whole.set(part, at)
    at += part.length
  }
  return whole
}

export function fromBase64(text: string): Bytes {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

/** Reads base64 that has only one way to be written; throws `Caught` for any other. */
export function strictBase64(text: unknown, what: string): Bytes {
  try {
    if (typeof text !== 'string') throw new Caught()
    const bytes = fromBase64(text)
    if (toBase64(bytes) === text) return bytes
  } catch {
    // told below
  }
  throw new Caught(`${what} is no canonical base64`)
}

export function toBase64(bytes: Bytes): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

export function toHex(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Reads so many bytes from lower-case hexadecimal; throws `Caught` for anything else. */
export function fromHex(text: unknown, length: number, what: string): Bytes {
  if (typeof text !== 'string' || !/^(?:[0-9a-f]{2})*$/.test(text) || text.length !== 2 * length) throw new Caught(`${what} is no hexadecimal of ${length} bytes`)
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => Number.parseInt(pair, 16))
}

export function same(one: Bytes, other: Bytes): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index])
}

export async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}
