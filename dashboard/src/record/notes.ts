/** Signed heads of the journal: C2SP signed notes, read strictly. */

import { Caught, concat, same, sha256, strictBase64, textOf, toBase64, toHex, utf8, type Bytes } from './bytes'
import { isWeak, verifies } from './curve'

export type Signature = { readonly name: string; readonly keyId: Bytes; readonly bytes: Bytes }
export type Note = { readonly text: string; readonly signatures: readonly Signature[] }
export type Head = { readonly origin: string; readonly size: number; readonly root: Bytes }
export type Key = { readonly name: string; readonly keyId: Bytes; readonly publicKey: Bytes; readonly vkey: string }

export class NotReadable extends Caught {}

const ED25519 = 1
const MOST_BYTES = 1_000_000
const MOST_SIGNATURES = 100
// A plus sign, white space, control characters and halves of letters: what no name of a key holds.
const BARRED = /[+\u0000-\u0020\u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]|\p{Cs}/u

export function parseNote(note: string | Bytes): Note {
  const text = typeof note === 'string' ? note : textOf(note)
  if (text === null || utf8(text).length > MOST_BYTES) throw new NotReadable('this note is no UTF-8, or too long')
  if (/[\u0000-\u0009\u000b-\u001f]|\p{Cs}/u.test(text)) throw new NotReadable('control characters stand in this note')
  const cut = text.lastIndexOf('\n\n')
  if (cut < 0 || !text.endsWith('\n') || cut + 2 === text.length) throw new NotReadable('this is no signed note: it has no signatures')
  const lines = text.slice(cut + 2, -1).split('\n')
  if (lines.length > MOST_SIGNATURES) throw new NotReadable('too many signatures stand under this note')
  return { text: text.slice(0, cut + 1), signatures: lines.map(parseSignature) }
}

function parseSignature(line: string): Signature {
  const [dash, name, encoded, ...rest] = line.split(' ')
  if (dash !== '—' || !name || encoded === undefined || rest.length > 0 || BARRED.test(name)) throw new NotReadable('a line of signature cannot be read')
  const bytes = strictBase64(encoded, `the signature of ${name}`)
  if (bytes.length < 5) throw new NotReadable('a signature is too short')
  return { name, keyId: bytes.slice(0, 4), bytes: bytes.slice(4) }
}

export function parseHead(text: string): Head {
  const lines = text.split('\n')
  const [origin, size, root] = lines
  if (lines.length < 4 || lines.pop() !== '' || lines.includes('') || !/^(0|[1-9][0-9]{0,18})$/.test(size!) || BigInt(size!) >= 2n ** 63n) throw new NotReadable('this is no head of a journal')
  const bytes = strictBase64(root, 'the root of this head')
  if (bytes.length !== 32) throw new NotReadable('the root of this head is no hash')
  return { origin: origin!, size: Number(size), root: bytes }
}

/** Reads a public key as it is handed around, `name+id+base64`, and checks that its id is its own and that it is sound. */
export async function parseKey(vkey: string): Promise<Key> {
  const [name, id, ...rest] = vkey.trim().split('+')
  if (!name || BARRED.test(name) || !/^[0-9a-f]{8}$/.test(id ?? '')) throw new NotReadable('a key looks like name+0123abcd+base64')
  const typed = strictBase64(rest.join('+'), 'the key')
  if (typed.length !== 33 || typed[0] !== ED25519) throw new NotReadable('only Ed25519 keys are known here')
  const keyId = (await sha256(concat(utf8(name), Uint8Array.of(10), typed))).slice(0, 4)
  if (toHex(keyId) !== id) throw new NotReadable('the id of this key is not its own')
  const publicKey = typed.slice(1)
  if (isWeak(publicKey)) throw new NotReadable('this is no key that one person can hold: signatures by it prove nothing')
  return { name, keyId, publicKey, vkey: vkey.trim() }
}

/** Says whether a note carries a signature by this key; throws `Caught` when one says so and does not fit. */
export async function isSignedBy(note: Note, key: Key): Promise<boolean> {
  const claimed = note.signatures.filter((one) => one.name === key.name && same(one.keyId, key.keyId))
  for (const { bytes } of claimed) {
    if (!(await verifies(key.publicKey, bytes, utf8(note.text)))) throw new Caught(`the signature of ${key.name} does not fit the text above it`)
  }
  return claimed.length > 0
}

/** Throws `Caught` unless both keys signed that the one follows the other. */
export async function checkRotation(old: Key, next: Key, oldSignature: Bytes, newSignature: Bytes): Promise<void> {
  if (old.name !== next.name || same(old.publicKey, next.publicKey)) throw new Caught('a rotation leads from one key of a journal to another')
  const message = concat(utf8('indelible/rotate/v1\0'), utf8(`${old.vkey}\n${next.vkey}`))
  for (const [key, signature] of [[old, oldSignature], [next, newSignature]] as const) {
    if (!(await verifies(key.publicKey, signature, message))) throw new Caught('one of the two keys did not sign this rotation')
  }
}

const ROTATION_LINE = concat(Uint8Array.of(0xff), utf8('indelible/rotation/v1\0'))

/** Returns these keys, and those that follow them by rotations that stand under a note; throws `Caught` for a line that says so and is none. */
export async function followed(note: Note, keys: readonly Key[]): Promise<Key[]> {
  const found = [...keys]
  for (const old of found) {
    const lineId = (await sha256(concat(utf8(old.name), Uint8Array.of(10), ROTATION_LINE, old.publicKey))).slice(0, 4)
    for (const { bytes } of note.signatures.filter((one) => one.name === old.name && same(one.keyId, lineId))) {
      if (bytes.length !== 160) throw new Caught('a rotation has another length than it should')
      const typed = concat(Uint8Array.of(ED25519), bytes.slice(0, 32))
      const id = (await sha256(concat(utf8(old.name), Uint8Array.of(10), typed))).slice(0, 4)
      const next = await parseKey(`${old.name}+${toHex(id)}+${toBase64(typed)}`)
      await checkRotation(old, next, bytes.slice(32, 96), bytes.slice(96))
      if (!found.some((key) => same(key.publicKey, next.publicKey))) found.push(next)
    }
  }
  return found
}

/** Says whether a journal is this tenant's: its origin is the ledger's name, a slash, and the tenant as in an address. */
export function isOfTenant(origin: string, tenant: string): boolean {
  try {
    return decodeURIComponent(origin.slice(origin.indexOf('/') + 1)) === tenant && origin.includes('/')
  } catch {
    return false
  }
}

/** Throws `Caught` unless a head is of this key's journal and carries its signature. */
export async function checkSignedBy(note: Note, key: Key): Promise<Head> {
  const head = parseHead(note.text)
  if (head.origin !== key.name) throw new Caught('it is a head of another journal than the key that this browser trusts')
  let isSigned = false
  for (const one of await followed(note, [key])) isSigned = (await isSignedBy(note, one)) || isSigned
  if (!isSigned) throw new Caught('it is not signed by the key that this browser trusts')
  return head
}
