/** Signed heads of the journal: C2SP signed notes, read strictly. */

import { concat, fromBase64, same, sha256, utf8, type Bytes } from './bytes'

export type Signature = { readonly name: string; readonly keyId: Bytes; readonly bytes: Bytes }
export type Note = { readonly text: string; readonly signatures: readonly Signature[] }
export type Head = { readonly origin: string; readonly size: number; readonly root: Bytes }
export type Key = { readonly name: string; readonly keyId: Bytes; readonly publicKey: Bytes; readonly vkey: string }

export class NotReadable extends Error {}

const ED25519 = 1

export function parseNote(note: string): Note {
  const cut = note.indexOf('\n\n')
  if (cut < 0 || !note.endsWith('\n')) throw new NotReadable('this is no signed note: it has no signatures')
  const lines = note.slice(cut + 2, -1).split('\n')
  return { text: note.slice(0, cut + 1), signatures: lines.map(parseSignature) }
}

function parseSignature(line: string): Signature {
  const match = /^— (\S+) ([A-Za-z0-9+/]+={0,2})$/.exec(line)
  if (!match) throw new NotReadable('a line of signature cannot be read')
  const bytes = fromBase64(match[2]!)
  if (bytes.length < 5) throw new NotReadable('a signature is too short')
  return { name: match[1]!, keyId: bytes.slice(0, 4), bytes: bytes.slice(4) }
}

export function parseHead(text: string): Head {
  const [origin, size, root] = text.split('\n')
  if (!origin || !size || !root || !/^(0|[1-9][0-9]{0,15})$/.test(size)) throw new NotReadable('this is no head of a journal')
  const bytes = fromBase64(root)
  if (bytes.length !== 32) throw new NotReadable('the root of this head is no hash')
  return { origin, size: Number(size), root: bytes }
}

/** Reads a public key as it is handed around, `name+id+base64`, and checks that its id is its own. */
export async function parseKey(vkey: string): Promise<Key> {
  const match = /^(\S+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]+={0,2})$/.exec(vkey.trim())
  if (!match) throw new NotReadable('a key looks like name+0123abcd+base64')
  const [, name, id, encoded] = match as unknown as [string, string, string, string]
  const typed = fromBase64(encoded)
  if (typed.length !== 33 || typed[0] !== ED25519) throw new NotReadable('only Ed25519 keys are known here')
  const keyId = (await sha256(concat(utf8(name), Uint8Array.of(10), typed))).slice(0, 4)
  if (!same(keyId, Uint8Array.from(id.match(/../g)!, (byte) => Number.parseInt(byte, 16)))) throw new NotReadable('the id of this key is not its own')
  return { name, keyId, publicKey: typed.slice(1), vkey: vkey.trim() }
}

/** Says whether a note carries a signature of this key that holds; one that does not hold is false, not missing. */
export async function isSignedBy(note: Note, key: Key): Promise<boolean> {
  const signature = note.signatures.find((one) => one.name === key.name && same(one.keyId, key.keyId))
  if (!signature) return false
  const imported = await crypto.subtle.importKey('raw', key.publicKey, { name: 'Ed25519' }, false, ['verify'])
  return crypto.subtle.verify({ name: 'Ed25519' }, imported, signature.bytes, utf8(note.text))
}
