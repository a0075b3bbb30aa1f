/**
 * Verifies the journal here, in the browser, from the entries and the signed head: not by the server's word.
 *
 * What this can tell: every entry up to the head is what was signed, in its order, and of this journal; each run's
 * entries follow one another and the rules; and nothing that this browser saw before was changed or cut off, or a loss
 * was declared, signed. What it cannot: that a key, seen for the first time here, is the right one. Payloads are not in the journal; `indelible
 * verify` checks those as well.
 */

import { Caught, same, toBase64, toHex, type Bytes } from './bytes'
import { Examination } from './examination'
import { GrowingTree, leafHash } from './merkle'
import { parseHead, type Head, type Key, type Note } from './notes'
import { explains, KeyChain, Untrusted, type Continuation, type Seen } from './trust'

export const WIDTH = 256

export type Source = {
  /** Gives 256 entries, or as many as the last file has, packed as in tlog-tiles. */
  entries(number: number, width: number): Promise<Bytes>
  /** Gives the hashes of the same entries, which the server keeps beside them. */
  hashes(number: number, width: number): Promise<Bytes>
}

export type Flaw = {
  readonly what: string
  readonly index?: number
  readonly run?: string
  readonly seq?: number
  readonly expected?: string
  readonly found?: string
}

export type Report =
  | { readonly verdict: 'verified'; readonly head: Head; readonly runs: number; readonly losses: readonly Continuation[] }
  /** `isUntrusted` says that everything fits together, and that no trusted key signed it. */
  | { readonly verdict: 'tampered'; readonly head: Head; readonly flaw: Flaw; readonly isUntrusted?: boolean }
  /** `loss` says that all that is here holds, and that what was seen before was declared lost. */
  | { readonly verdict: 'cannot_tell'; readonly head: Head; readonly loss?: Continuation }

class Found extends Caught {
  constructor(readonly flaw: Flaw) {
    super(flaw.what)
  }
}

/** Verifies a journal as it grows: what was verified once is not read again. */
export class Verifier {
  #tree = new GrowingTree()
  #examination: Examination | null = null
  #roots = new Map<number, string>()

  /** Trusts these keys. */
  constructor(
    readonly keys: readonly Key[],
    readonly source: Source,
  ) {}

  /** Verifies all entries up to a head; `older` is what was seen before, read before the head was asked for. */
  async advance(note: Note, older: Seen | null, progress: (done: number, all: number) => void = () => {}): Promise<Report> {
    const head = parseHead(note.text)
    const hasBegun = this.#tree.size > 0
    try {
      await KeyChain.checkAtOnce(note, head, this.keys)
      return await this.#follow(note, head, older, progress).catch((problem: unknown) => {
        if (!hasBegun || !(problem instanceof Caught)) throw problem
        this.#begin() // after a loss the journal goes on from elsewhere, and only its own words tell
        return this.#follow(note, head, older, progress)
      })
    } catch (problem) {
      if (problem instanceof Found) return { verdict: 'tampered', head, flaw: problem.flaw }
      if (problem instanceof Caught) return { verdict: 'tampered', head, flaw: { what: problem.message }, isUntrusted: problem instanceof Untrusted }
      throw problem
    }
  }

  /** Throws `Caught` unless a head, this journal's or one that was kept, is signed by the key that counts for its size. */
  async checkSigned(note: Note, head: Head): Promise<void> {
    await this.#examination!.chain.checkSigned(note, head, this.keys)
  }

  /** Gives the loss that explains why this journal does not begin with what was seen; null when none was declared. */
  lossOf(seen: Seen): Continuation | null {
    return this.#examination!.chain.continuations.find((one) => explains(one, seen)) ?? null
  }

  async #follow(note: Note, head: Head, older: Seen | null, progress: (done: number, all: number) => void): Promise<Report> {
    if (head.size < this.#tree.size || (older && older.size <= this.#tree.size && !this.#roots.has(older.size))) this.#begin()
    const examination = (this.#examination ??= new Examination(head.origin, true, true))
    while (this.#tree.size < head.size) {
      await this.#read(head, examination, older)
      progress(this.#tree.size, head.size)
    }
    await this.#checkRoot(head)
    this.#roots = new Map([...[...this.#roots].filter(([size]) => size === older?.size), [head.size, toBase64(head.root)]])
    if (this.keys.length > 0) await examination.chain.checkSigned(note, head, this.keys)
    const loss = older && this.#lossSince(older, head)
    if (loss) return { verdict: 'cannot_tell', head, loss }
    if (this.keys.length === 0) return { verdict: 'cannot_tell', head } // it fits together, and nobody knows who signed it
    return { verdict: 'verified', head, runs: examination.lives.runs.size, losses: examination.chain.continuations }
  }

  #begin(): void {
    this.#tree = new GrowingTree()
    this.#examination = null
    this.#roots.clear()
  }

  /** Gives the loss that was declared since; null when the journal begins with what was seen; else throws `Found`. */
  #lossSince(older: Seen, head: Head): Continuation | null {
    const root = this.#roots.get(older.size)
    if (root === older.root) return null
    const loss = this.lossOf(older)
    if (loss) return loss
    if (older.size > head.size) throw new Found({ what: `this browser has seen ${older.size} entries, and now only ${head.size} are shown: the end was cut off` })
    throw new Found({
      what: `the first ${older.size} entries are not those that this browser saw before: history was rewritten`,
      expected: older.root,
      ...(root !== undefined && { found: root }),
    })
  }

  /** Reads on to the end of the next file of entries. */
  async #read(head: Head, examination: Examination, older: Seen | null): Promise<void> {
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
      if (this.#tree.size === older?.size) this.#roots.set(older.size, toBase64(await this.#tree.root()))
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
