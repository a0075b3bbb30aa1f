/** Bytes, and the one hash that the record is made of. */

export type Bytes = Uint8Array<ArrayBuffer>

const encoder = new TextEncoder()

export function utf8(text: string): Bytes {
  return encoder.encode(text)
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

export function toBase64(bytes: Bytes): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

export function toHex(bytes: Bytes): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

export function same(one: Bytes, other: Bytes): boolean {
  return one.length === other.length && one.every((byte, index) => byte === other[index])
}

export async function sha256(bytes: Bytes): Promise<Bytes> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes))
}
