/** Examines a journal's entries one after the other: their form, the rules, the keys, the values. */

import { Caught, toHex, type Bytes } from './bytes'
import { isEffect, readBody, type Body } from './bodies'
import { Lives } from './lives'
import { leafHash } from './merkle'
import { commitmentOf, isWrittenRight, OneKey, Tally, type Value } from './payloads'
import { Permissions } from './permissions'
import { RunLives } from './runs'
import { KeyChain } from './trust'

/** Takes in entries in their order; throws `Caught` at the first that is not as it should be. */
export class Examination {
  readonly chain: KeyChain
  readonly lives: Lives
  readonly tally = new Tally()
  readonly permissions: Permissions
  readonly #runs: RunLives
  readonly #oneKey = new OneKey()

  /** `isWhole` says that every event of each run that is shown at all is shown, from its first; `hasEveryRun` that every run is. */
  constructor(origin: string, isWhole: boolean, hasEveryRun: boolean) {
    this.chain = new KeyChain(origin)
    this.lives = new Lives(origin, isWhole)
    this.#runs = new RunLives(isWhole)
    this.permissions = new Permissions(isWhole && hasEveryRun)
  }

  /** Examines one entry with the values that came with it. */
  async take(index: number, entry: Bytes, values: readonly Value[] = []): Promise<Body> {
    const body = readBody(entry)
    const { gaps, before } = this.lives.follow(body, toHex(await leafHash(entry)))
    if (!isEffect(body)) {
      await this.chain.learn(index, body.run, body.type, body.facts)
      if (body.type === 'payload_erased') this.tally.erase(body.run, body.facts)
    }
    await checkValues(body, values)
    this.tally.take(body, values.map((one) => one.field))
    this.#oneKey.take(body, values.find((one) => one.field === 'key')?.value)
    const shown = new Map(values.map((one) => [one.field, one.value]))
    if (!isEffect(body)) {
      this.permissions.takeFact(body, shown)
      this.#runs.take(body, gaps, shown)
    } else if (before) await this.permissions.take(body, before, shown)
    return body
  }
}

async function checkValues(body: Body, values: readonly Value[]): Promise<void> {
  const seen = new Set<string>()
  for (const one of values) {
    const expected = Object.hasOwn(body.commits, one.field) ? body.commits[one.field] : undefined
    if (seen.has(one.field) || (await commitmentOf(one)) !== expected) throw new Caught(`its “${one.field}” is not the value it committed to`)
    if (!isWrittenRight(one)) throw new Caught(`its “${one.field}” is not written canonically`)
    seen.add(one.field)
  }
}
