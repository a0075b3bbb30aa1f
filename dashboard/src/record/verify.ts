/**
 * Verifies the journal here, in the browser, from the entries and the signed head: not by the server's word.
 *
 * What this can tell: every entry up to the head is what was signed, in its order; each run's entries follow one
 * another; and nothing that this browser saw before was changed or cut off. What it cannot: that a key, seen for the
 * first time here, is the right one. Payloads are not in the journal; `indelible verify` checks those as well.
 */

import { same, toBase64, toHex, type Bytes } from './bytes'
import { GrowingTree, leafHash } from './merkle'
import { isSignedBy, parseHead, type Head, type Key, type Note } from './notes'

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
  | { readonly verdict: 'tampered'; readonly head: Head; readonly flaw: Flaw }

type Body = { run: string; seq: number; prev: string }

class Found extends Error {
  constructor(readonly flaw: Flaw) {
    super(flaw.what)
  }
}

/** Verifies a journal as it grows: what was verified once is not read again. */
export class Verifier {
  readonly #tree = new GrowingTree()
  readonly #chains = new Chains()

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
      await checkSigned(note, this.keys)
      this.#checkNotCut(head)
      while (this.#tree.size < head.size) {
        await this.#read(head)
        progress(this.#tree.size, head.size)
      }
      await this.#checkRoot(head)
      return { verdict: 'verified', head, runs: this.#chains.count, older: this.older }
    } catch (problem) {
      if (problem instanceof Found) return { verdict: 'tampered', head, flaw: problem.flaw }
      throw problem
    }
  }

  #checkNotCut(head: Head): void {
    const seen = Math.max(this.older?.size ?? 0, this.#tree.size)
    if (seen > head.size) throw new Found({ what: `this browser has seen ${seen} entries, and now only ${head.size} are shown: the end was cut off` })
  }

  /** Reads on to the end of the next file of entries. */
  async #read(head: Head): Promise<void> {
    const number = Math.floor(this.#tree.size / WIDTH)
    const width = Math.min(WIDTH, head.size - number * WIDTH)
    const [packed, hashes] = await Promise.all([this.source.entries(number, width), this.source.hashes(number, width)])
    for (const entry of unpack(packed, number, width).slice(this.#tree.size % WIDTH)) {
      const index = this.#tree.size
      const leaf = await leafHash(entry)
      checkKept(entry, leaf, hashes, index)
      this.#chains.follow(entry, leaf, index)
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

async function checkSigned(note: Note, keys: readonly Key[]): Promise<void> {
  for (const key of keys) if (await isSignedBy(note, key)) return
  throw new Found({ what: 'the head is not signed by the key of this journal' })
}

/** The hashes beside the entries are no evidence, for the root is what was signed; but they tell which entry it is. */
function checkKept(entry: Bytes, leaf: Bytes, hashes: Bytes, index: number): void {
  const place = (index % WIDTH) * 32
  const kept = hashes.slice(place, place + 32)
  if (same(kept, leaf)) return
  const told = bodyOf(entry)
  throw new Found({
    what: 'this entry is not what was recorded',
    index,
    ...(told && { run: told.run, seq: told.seq }),
    expected: toHex(kept),
    found: toHex(leaf),
  })
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
  if (entries.length !== width) throw new Found({ what: `entries are missing after ${number * WIDTH + entries.length}`, index: number * WIDTH + entries.length })
  return entries
}

const decoder = new TextDecoder('utf-8', { fatal: true })

function bodyOf(entry: Bytes): Body | null {
  try {
    const body = JSON.parse(decoder.decode(entry)) as Partial<Body>
    if (typeof body.run !== 'string' || typeof body.seq !== 'number' || typeof body.prev !== 'string') return null
    return body as Body
  } catch {
    return null
  }
}

/** Follows each run: its entries are numbered from 0 and each names the one before. */
class Chains {
  readonly #last = new Map<string, { seq: number; hash: string }>()

  get count(): number {
    return this.#last.size
  }

  follow(entry: Bytes, leaf: Bytes, index: number): void {
    const body = bodyOf(entry)
    if (!body) throw new Found({ what: 'this entry cannot be read', index })
    const last = this.#last.get(body.run) ?? { seq: -1, hash: '0'.repeat(64) }
    const place = { index, run: body.run, seq: body.seq }
    if (body.seq !== last.seq + 1) throw new Found({ ...place, what: 'an entry of this run is missing before this one', expected: String(last.seq + 1), found: String(body.seq) })
    if (body.prev !== last.hash) throw new Found({ ...place, what: 'this entry does not follow the one before it in its run', expected: last.hash, found: body.prev })
    this.#last.set(body.run, { seq: body.seq, hash: toHex(leaf) })
  }
}
