/** Proves here that one signed head of the journal continues another: nothing before it was changed, only more was added. */

import { api, told } from '../api/client'
import { Caught, fromBase64, same, type Bytes } from './bytes'
import { nodeHash } from './merkle'
import { checkSignedBy, parseKey, parseNote, type Head } from './notes'

/** Says whether a tree of `old` leaves is the beginning of one of `size` leaves (RFC 9162, 2.1.4.2). */
export async function continues(old: number, size: number, oldRoot: Bytes, root: Bytes, proof: readonly Bytes[]): Promise<boolean> {
  if (old === size) return proof.length === 0 && same(oldRoot, root)
  if (old < 1 || old > size || proof.length === 0) return false
  let [place, last] = [old - 1, size - 1]
  while (place % 2 === 1) [place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  // Where the old tree is full, its root is where the way begins, and the proof leaves it out.
  const [first, ...way] = place === 0 ? [oldRoot, ...proof] : proof
  let [before, after] = [first!, first!]
  for (const sibling of way) {
    if (last === 0) return false
    if (place % 2 === 1 || place === last) {
      ;[before, after] = [await nodeHash(sibling, before), await nodeHash(sibling, after)]
      while (place % 2 === 0 && place !== 0) [place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
    } else {
      after = await nodeHash(after, sibling)
    }
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 && same(before, oldRoot) && same(after, root)
}

export type Continued = { readonly holds: boolean; readonly says: string }

/** Compares two signed heads: both by the key that this browser trusts, of one journal, and the larger a continuation. */
export async function compareHeads(oneNote: string, otherNote: string, vkey: string): Promise<Continued> {
  const key = await parseKey(vkey)
  const notes = [oneNote, otherNote].map((text) => parseNote(`${text.trim()}\n`))
  const heads: Head[] = []
  try {
    for (const note of notes) heads.push(await checkSignedBy(note, key))
  } catch (problem) {
    if (problem instanceof Caught) return { holds: false, says: `One of the heads does not count: ${problem.message}.` }
    throw problem
  }
  const [old, newer] = heads.sort((one, other) => one.size - other.size) as [Head, Head]
  const { proof } = await told(api.GET('/v1/journal/consistency', { params: { query: { old: old.size, new: newer.size } } }))
  const holds = await continues(old.size, newer.size, old.root, newer.root, proof.map(fromBase64))
  const [small, large] = [old.size.toLocaleString('en'), newer.size.toLocaleString('en')]
  if (holds) return { holds, says: small === large ? `Both are of the same ${large} entries.` : `The ${large} entries begin with exactly the ${small} that were signed before.` }
  return { holds, says: `The first ${small} of ${large} entries are not those that were signed before: history was rewritten, or two people were shown two histories.` }
}
