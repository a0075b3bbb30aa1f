/** Compares disclosed values with what events committed to, and accounts for those that are not there. */

import { Caught, concat, sha256, textOf, toHex, utf8, type Bytes } from './bytes'
import { isRecorded } from './canonical'
import { isEffect, isObject, type Body, type EffectBody } from './bodies'

export type Value = { readonly field: string; readonly salt: Bytes; readonly value: Bytes }

const TAG = utf8('indelible/commit/v1\0')
const BASES = ['request', 'subject', 'retention']

export async function commitmentOf({ salt, field, value }: Value): Promise<string> {
  const name = utf8(field)
  return toHex(await sha256(concat(TAG, salt, Uint8Array.of(name.length >> 8, name.length & 255), name, value)))
}

/** Says whether a value is written in its one way; a key is a hash, and the name of a side effect bare text. */
export function isWrittenRight({ field, value }: Value): boolean {
  if (field === 'key') return value.length === 32
  const text = textOf(value)
  return text !== null && (field === 'side_effect_key' || isRecorded(text))
}

/** Counts values that are absent, and explains them: erased by an event, withheld, or missing. */
export class Tally {
  readonly #absent = new Map<string, Set<string>>()
  #count = 0
  #named = 0
  #erased = 0

  /** Takes in which values of an event are here. */
  take({ run, seq, commits }: Body, shown: readonly string[]): void {
    const lacking = Object.keys(commits).filter((name) => !shown.includes(name))
    this.#count += lacking.length
    if (lacking.length > 0) this.#absent.set(placeOf(run, seq), new Set(lacking))
  }

  /** Takes in which values a `payload_erased` event says are gone; throws `Caught` for anything malformed. */
  erase(run: string, facts: Readonly<Record<string, unknown>>): void {
    const { basis, erased } = facts
    if (Object.keys(facts).sort().join() !== 'basis,erased' || !BASES.includes(basis as string) || !Array.isArray(erased)) throw new Caught('a payload_erased says on what basis and what was erased')
    for (const one of erased as unknown[]) {
      const isNamed = isObject(one) && Object.keys(one).sort().join() === 'fields,seq' && Number.isSafeInteger(one.seq) && Array.isArray(one.fields) && one.fields.every((name) => typeof name === 'string')
      if (!isNamed) throw new Caught('a payload_erased names numbers of events and fields')
      const fields = one.fields as string[]
      this.#named += fields.length
      const left = this.#absent.get(placeOf(run, one.seq as number))
      for (const name of new Set(fields)) if (left?.delete(name)) this.#erased += 1
    }
  }

  /** Throws `Caught` when more is withheld than is absent, or a whole journal lacks what was neither erased nor withheld. */
  close(withheld: number, isWhole: boolean): void {
    if (withheld > this.#count) throw new Caught(`more values are said to be withheld than are absent: ${withheld} of ${this.#count}`)
    const erased = isWhole && withheld > 0 ? Math.min(this.#named, this.#count - withheld) : this.#erased
    if (isWhole && this.#count - erased > withheld) throw new Caught('values are missing that no event erased and nobody withheld')
  }
}

const placeOf = (run: string, seq: number) => `${seq} ${run}`

/** One key, one effect: at most one effect was ever entered under a key, where keys are shown. */
export class OneKey {
  readonly #entered = new Map<string, string>()
  readonly #waiting = new Map<string, string>()

  take(body: Body, key: Bytes | undefined): void {
    if (!isEffect(body)) return
    const { effect, attempt, status }: EffectBody = body
    if (key) this.#waiting.set(effect, toHex(key))
    const found = this.#waiting.get(effect)
    if (found === undefined) return
    if (attempt > 0) {
      if ((this.#entered.get(found) ?? effect) !== effect) throw new Caught('its key has another effect already, and both were entered: at most one may be')
      this.#entered.set(found, effect)
    }
    if (attempt > 0 || status === 'denied' || status === 'canceled') this.#waiting.delete(effect)
  }
}
