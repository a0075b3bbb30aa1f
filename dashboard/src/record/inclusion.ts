/** Proves here that one event is in the journal that was signed. */

import { api, told } from '../api/client'
import { readBody } from './bodies'
import { Caught, fromBase64, same, toHex } from './bytes'
import { leafHash, rootByInclusion } from './merkle'
import { checkSignedBy, parseHead, parseKey, parseNote } from './notes'
import { remembered } from './pinned'

/** `isFirst` says that this browser knows no key of the journal yet, and took the one that the server names. */
export type Proven = { readonly holds: true; readonly size: number; readonly isFirst: boolean } | { readonly holds: false; readonly why: string }

/** Asks for the way from an event to a signed head, and goes it. */
export async function proveIncluded(runId: string, seq: number, hash: string): Promise<Proven> {
  const proof = await told(api.GET('/v1/journal/inclusion', { params: { query: { run_id: runId, seq } } }))
  const leaf = await leafHash(fromBase64(proof.entry))
  if (toHex(leaf) !== hash) return { holds: false, why: 'the proof is of another event' }
  const root = await rootByInclusion(leaf, proof.index, proof.size, proof.proof.map(fromBase64))
  const signed = noteIn(proof.receipt)
  const head = parseHead(signed.text)
  const pinned = remembered().get(head.origin)
  const vkey = pinned?.vkey ?? (await namedKey())
  try {
    if (!vkey) throw new Caught('the server names no key of this journal')
    await checkSignedBy(signed, await parseKey(vkey))
    if (readBody(fromBase64(proof.entry)).log !== head.origin) throw new Caught('the event belongs to another journal')
  } catch (problem) {
    if (problem instanceof Caught) return { holds: false, why: problem.message }
    throw problem
  }
  if (!root || head.size !== proof.size || !same(root, head.root)) return { holds: false, why: 'the proof does not lead to what was signed' }
  return { holds: true, size: proof.size, isFirst: !pinned }
}

async function namedKey(): Promise<string | undefined> {
  const listed = await told(api.GET('/.well-known/indelible-keys.json'))
  return listed.keys.find((key) => key.status === 'current')?.vkey
}

/** A receipt is a tlog-proof: lines of proof, an empty line, and the signed note. */
function noteIn(receipt: string) {
  return parseNote(receipt.slice(receipt.indexOf('\n\n') + 2))
}
