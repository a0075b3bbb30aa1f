/**
 * Verifies the journal here, in the browser, from the entries and the signed head: not by the server's word.
 *
 * What this can tell: every entry up to the head is what was signed, in its order, and of this journal; each run's
 * entries follow one another and the rules; and nothing that this browser saw before was changed or cut off. What it
 * cannot: that a key, seen for the first time here, is the right one. Payloads are not in the journal; `indelible
 * verify` checks those as well.
 */

import { Caught, same, toBase64, toHex, type Bytes } from './bytes'
import { Examination } from './examination'
import { GrowingTree, leafHash } from './merkle'
import { parseHead, type Head, type Key, type Note } from './notes'
import { KeyChain, Untrusted } from './trust'

export const WIDTH = 256

export type Source = {
  /** Gives 256 entries, or as many as the last file has, packed as in tlog-tiles. */
  entries(number: number, width: number): Promise<Bytes>
  /** Gives the hashes of the same entries, which the server keeps beside them. */
  hashes(number: number, width: number): Promise<Bytes>
}

export type Seen = { readonly size: number; readonly root: string }

export type Flaw = {
  readonly what: string
  readonly index?: number
  readonly run?: string
  readonly seq?: number
  readonly expected?: string
  readonly found?: string
}

export type Report =
  | { readonly verdict: 'verified'; readonly head: Head; readonly runs: number; readonly older: Seen | null }
  /** `isUntrusted` says that everything fits together, and that no trusted key signed it. */
  | { readonly verdict: 'tampered'; readonly head: Head; readonly flaw: Flaw; readonly isUntrusted?: boolean }
  | { readonly verdict: 'cannot_tell'; readonly head: Head }

class Found extends Error {
  constructor(readonly flaw: Flaw) {
    super(flaw.what)
  }
}

/** Verifies a journal as it grows: what was verified once is not read again. */
export class Verifier {
  readonly #tree = new GrowingTree()
  #examination: Examination | null = null

  /** Trusts these keys; `older` is what this browser saw last. */
  constructor(
    readonly keys: readonly Key[],
    readonly source: Source,
    readonly older: Seen | null,
  ) {}

  /** Verifies all entries up to a head. */
  async advance(note: Note, progress: (done: number, all: number) => void = () => {}): Promise<Report> {
    const head = parseHead(note.text)
    try {
      await KeyChain.checkAtOnce(note, head, this.keys)
      const examination = (this.#examination ??= new Examination(head.origin, true, true))
      this.#checkNotCut(head)
      while (this.#tree.size < head.size) {
        await this.#read(head, examination)
        progress(this.#tree.size, head.size)
      }
      await this.#checkRoot(head)
      if (this.keys.length === 0) return { verdict: 'cannot_tell', head } // it fits together, and nobody knows who signed it
      await examination.chain.checkSigned(note, head, this.keys)
      return { verdict: 'verified', head, runs: examination.lives.runs.size, older: this.older }
    } catch (problem) {
      if (problem instanceof Found) return { verdict: 'tampered', head, flaw: problem.flaw }
      if (problem instanceof Caught) return { verdict: 'tampered', head, flaw: { what: problem.message }, isUntrusted: problem instanceof Untrusted }
      throw problem
    }
  }

  #checkNotCut(head: Head): void {
    const seen = Math.max(this.older?.size ?? 0, this.#tree.size)
    if (seen > head.size) throw new Found({ what: `this browser has seen ${seen} entries, and now only ${head.size} are shown: the end was cut off` })
  }

  /** Reads on to the end of the next file of entries. */
  async #read(head: Head, examination: Examination): Promise<void> {
    const number = Math.floor(this.#tree.size / WIDTH)
    const width = Math.min(WIDTH, head.size - number * WIDTH)
    const [packed, hashes] = await Promise.all([this.source.entries(number, width), this.source.hashes(number, width)])
    if (hashes.length !== width * 32) throw new Found({ what: `the hashes beside entry ${number * WIDTH} have another length than they should` })
    for (const entry of unpack(packed, number, width).slice(this.#tree.size % WIDTH)) {
      const index = this.#tree.size
      const leaf = await leafHash(entry)
      checkKept(entry, leaf, hashes, index)
      await examined(examination, index, entry)
      await this.#tree.append(leaf)
      if (this.older && this.#tree.size === this.older.size) await checkOlder(this.#tree, this.older)
    }
  }

  async #checkRoot(head: Head): Promise<void> {
    const root = await this.#tree.root()
    if (same(root, head.root)) return
    throw new Found({ what: 'the entries do not add up to what was signed', expected: toBase64(head.root), found: toBase64(root) })
  }
}

async function examined(examination: Examination, index: number, entry: Bytes): Promise<void> {
  try {
    await examination.take(index, entry)
  } catch (problem) {
    if (problem instanceof Caught) throw new Found({ what: problem.message, index, ...placeOf(entry) })
    throw problem
  }
}

/** The hashes beside the entries are no evidence, for the root is what was signed; but they tell which entry it is. */
function checkKept(entry: Bytes, leaf: Bytes, hashes: Bytes, index: number): void {
  const place = (index % WIDTH) * 32
  const kept = hashes.slice(place, place + 32)
  if (same(kept, leaf)) return
  throw new Found({ what: 'this entry is not what was recorded', index, ...placeOf(entry), expected: toHex(kept), found: toHex(leaf) })
}

async function checkOlder(tree: GrowingTree, older: Seen): Promise<void> {
  const root = toBase64(await tree.root())
  if (root !== older.root) {
    throw new Found({
      what: `the first ${older.size} entries are not those that this browser saw before: history was rewritten`,
      expected: older.root,
      found: root,
    })
  }
}

/** Takes packed entries apart. */
export function unpack(packed: Bytes, number: number, width: number): Bytes[] {
  const entries: Bytes[] = []
  for (let at = 0; at < packed.length; ) {
    const from = at + 2
    at = from + (packed[at]! << 8) + (packed[at + 1] ?? 0)
    if (at > packed.length) break
    entries.push(packed.slice(from, at))
  }
  const isWhole = entries.reduce((sum, entry) => sum + entry.length + 2, 0) === packed.length
  if (entries.length !== width || !isWhole) throw new Found({ what: `entries are missing after ${number * WIDTH + entries.length}`, index: number * WIDTH + entries.length })
  return entries
}

/** Gives run and number of an entry, as far as it can be read. */
function placeOf(entry: Bytes): { run?: string; seq?: number } {
  try {
    const { run, seq } = JSON.parse(new TextDecoder().decode(entry)) as { run?: unknown; seq?: unknown }
    return { ...(typeof run === 'string' && { run }), ...(typeof seq === 'number' && { seq }) }
  } catch {
    return {}
  }
}
