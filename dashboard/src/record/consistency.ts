/** Proves here that one signed head of the journal continues another: nothing before it was changed, only more was added. */

import { api, told } from '../api/client'
import { Caught, fromBase64, same, toBase64, type Bytes } from './bytes'
import { verifiedUpTo } from './checking'
import { nodeHash } from './merkle'
import { parseHead, parseNote, type Head, type Note } from './notes'

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

export type Compared = { readonly is: 'continued' | 'lost' | 'broken'; readonly says: string }

/** Says whether the journal, as it was verified here, continues a head that was signed before. */
export async function compareHead(kept: string): Promise<Compared> {
  try {
    const note = parseNote(`${kept.trim()}\n`)
    return await compared(note, parseHead(note.text))
  } catch (problem) {
    if (problem instanceof Caught) return { is: 'broken', says: `This head does not count: ${problem.message}.` }
    throw problem
  }
}

async function compared(note: Note, old: Head): Promise<Compared> {
  const verified = await verifiedUpTo(old.size)
  if (!verified) throw new Error('The journal has to be verified first: press Verify now.')
  const { head, verifier } = verified
  const isContinued = old.origin === head.origin && (await isBeginning(old, head))
  const loss = isContinued || old.origin !== head.origin ? null : verifier.lossOf({ size: old.size, root: toBase64(old.root) })
  const [small, large] = [old.size.toLocaleString('en'), head.size.toLocaleString('en')]
  if (loss) return { is: 'lost', says: `This head belongs to the history that was declared lost at entry #${loss.index.toLocaleString('en')}, so the journal cannot continue it.` }
  await verifier.checkSigned(note, old)
  if (isContinued) return { is: 'continued', says: small === large ? `Both are of the same ${large} entries.` : `The ${large} entries begin with exactly the ${small} that were signed before.` }
  if (old.size > head.size) return { is: 'broken', says: `${small} entries were signed, and now only ${large} are shown: the end was cut off, or two people were shown two histories.` }
  return { is: 'broken', says: `The first ${small} of ${large} entries are not those that were signed before: history was rewritten, or two people were shown two histories.` }
}

async function isBeginning(old: Head, head: Head): Promise<boolean> {
  if (old.size > head.size) return false
  const { proof } = await told(api.GET('/v1/journal/consistency', { params: { query: { old: old.size, new: head.size } } }))
  return continues(old.size, head.size, old.root, head.root, proof.map(fromBase64))
}
