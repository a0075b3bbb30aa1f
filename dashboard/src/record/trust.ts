/** Whose signature counts on which head: pinned keys, rotations, revocations. A key that only stands in the evidence is never trusted. */

import { Caught, same, strictBase64, toHex } from './bytes'
import { isObject } from './bodies'
import { isWeak } from './curve'
import { checkRotation, followed, isSignedBy, parseKey, type Head, type Key, type Note } from './notes'
import rules from './rules.json'

/** Is what somebody saw of a journal: how many entries, and the root over them. */
export type Seen = { readonly size: number; readonly root: string }
/** Says, signed at entry `index`, that `lost` was signed once, and that the journal went on from `size` entries without the rest. */
export type Continuation = { readonly index: number; readonly size: number; readonly lost: Seen }
type Rotation = { readonly index: number; readonly old: Key; readonly new: Key }

const MEMBERS: Readonly<Record<string, readonly string[]>> = rules.journal_members
const OWN_RUN = 'indelible:journal'

const sizeOf = (value: unknown): number => {
  if (!Number.isSafeInteger(value) || (value as number) < 0) throw new Caught('a size is a whole number')
  return value as number
}

/** Says whether a head can be one of the history that was lost. */
export function explains({ size, lost }: Continuation, head: Seen): boolean {
  return head.size === lost.size ? head.root === lost.root : size < head.size && head.size < lost.size
}

/** Says that no key that is trusted signed a head. */
export class Untrusted extends Caught {}

/** Collects what a journal says about its own keys, and tells whose signature a head needs. */
export class KeyChain {
  readonly continuations: Continuation[] = []
  readonly #rotations: Rotation[] = []
  readonly #revoked = new Map<string, number>()
  readonly #writers = new Map<string, string>()

  constructor(readonly origin: string) {}

  /** Takes in what an event of the journal's own run says; throws `Caught` when it does not hold. */
  async learn(index: number, run: string, type: string, facts: Readonly<Record<string, unknown>>): Promise<void> {
    if (run !== OWN_RUN || !Object.hasOwn(MEMBERS, type)) return
    if (Object.keys(facts).sort().join() !== MEMBERS[type]!.join()) throw new Caught(`a ${type} says ${MEMBERS[type]!.join(', ') || 'nothing'}`)
    if (type === 'key_rotated') await this.#rotate(index, facts)
    else if (type === 'key_registered') await keyIn(facts.key)
    else if (type === 'key_revoked') {
      const [key, size] = [await keyIn(facts.key), sizeOf(facts.size)]
      const raw = toHex(key.publicKey)
      this.#revoked.set(raw, Math.min(size, this.#revoked.get(raw) ?? size))
    } else if (type === 'log_continued') this.continuations.push(continuationOf(index, facts))
    else if (type === 'writer_registered') this.#register(facts)
  }

  async #rotate(index: number, facts: Readonly<Record<string, unknown>>): Promise<void> {
    const [old, next] = [await keyIn(facts.old), await keyIn(facts.new)]
    if (old.vkey !== facts.old || next.vkey !== facts.new) throw new Caught('a rotation leads from one key of a journal to another')
    await checkRotation(old, next, strictBase64(facts.old_signature, 'a signature'), strictBase64(facts.new_signature, 'a signature'))
    const last = this.#rotations.at(-1)
    if (old.name !== this.origin || (last && !same(last.new.publicKey, old.publicKey))) throw new Caught('this is a rotation of another key')
    this.#rotations.push({ index, old, new: next })
  }

  #register({ key, writer }: Readonly<Record<string, unknown>>): void {
    if (typeof writer !== 'string' || isWeak(strictBase64(key, "the writer's key"))) throw new Caught('a writer has a key of its own')
    if ((this.#writers.get(writer) ?? key) !== key) throw new Caught('the writer has another key already')
    this.#writers.set(writer, key as string)
  }

  /** Throws `Caught` when a look at the newest head is enough to see that it is not the journal of these keys. */
  static async checkAtOnce(note: Note, head: Head, pinned: readonly Key[]): Promise<void> {
    if (pinned.length > 0 && !pinned.some((key) => key.name === head.origin)) throw new Caught(`it is a head of another journal than the key you pinned: ${head.origin}`)
    for (const key of pinned) await isSignedBy(note, key)
  }

  /** Throws `Caught` unless a head is signed by the key that is trusted for its size; every line by a known key has to fit. */
  async checkSigned(note: Note, head: Head, pinned: readonly Key[]): Promise<Key> {
    if (head.origin !== this.origin) throw new Caught(`it is a head of another journal: ${head.origin}`)
    const named = this.#rotations.flatMap((one) => [one.old, one.new])
    const trusted = await followed(note, pinned)
    let keys: readonly Key[] = trusted
    if (named.length > 0) {
      // A part of a journal may hold some rotations, and later ones stand under its head.
      keys = await followed(note, [this.#signerOf(head.size)])
      const known = [...named, ...keys]
      if (!trusted.some((key) => key.name === this.origin && known.some((one) => same(one.publicKey, key.publicKey)))) keys = []
    }
    const signers = new Set<string>()
    for (const key of [...trusted, ...named, ...keys]) if (await isSignedBy(note, key)) signers.add(key.vkey)
    const good = keys.find((key) => signers.has(key.vkey) && key.name === this.origin && head.size <= (this.#revoked.get(toHex(key.publicKey)) ?? head.size))
    if (!good) throw new Untrusted(signers.size > 0 ? 'the head is signed by a key that was replaced or revoked' : 'the head is not signed by the key of this journal')
    return good
  }

  #signerOf(size: number): Key {
    return this.#rotations.findLast((one) => one.index < size)?.new ?? this.#rotations[0]!.old
  }
}

async function keyIn(vkey: unknown): Promise<Key> {
  if (typeof vkey !== 'string') throw new Caught('a key is written as a text')
  return parseKey(vkey)
}

function continuationOf(index: number, { lost, size }: Readonly<Record<string, unknown>>): Continuation {
  if (!isObject(lost) || Object.keys(lost).sort().join() !== 'root,size' || strictBase64(lost.root, 'the lost root').length !== 32) throw new Caught('a continuation names size and root of what was lost')
  return { index, size: sizeOf(size), lost: { size: sizeOf(lost.size), root: lost.root as string } }
}
