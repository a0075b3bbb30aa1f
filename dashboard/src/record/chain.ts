/** Verifies the events of one run here: each is what its hash says, and names the one before it. */

import { toHex, utf8 } from './bytes'
import { canonical } from './canonical'
import { leafHash } from './merkle'

export type ChainEvent = { readonly run_id: string; readonly seq: number; readonly hash: string; readonly body: Readonly<Record<string, unknown>> }
export type Bad = { readonly seq: number; readonly what: string; readonly expected: string; readonly found: string }

/** Follows a run's events as they come, page by page. */
export class RunChain {
  #next = 0
  #last = '0'.repeat(64)

  constructor(readonly runId: string) {}

  get count(): number {
    return this.#next
  }

  /** Is the hash of the last event that was followed. */
  get head(): string {
    return this.#last
  }

  /** Follows some more events; gives the first that is not what it should be. */
  async follow(events: readonly ChainEvent[]): Promise<Bad | null> {
    for (const event of events) {
      const bad = await this.#why(event)
      if (bad) return bad
      this.#next += 1
      this.#last = event.hash
    }
    return null
  }

  async #why({ seq, hash, body }: ChainEvent): Promise<Bad | null> {
    const bad = (what: string, expected: unknown, found: unknown) => ({ seq, what, expected: String(expected), found: String(found) })
    if (body.run !== this.runId) return bad('it is of another run', this.runId, body.run)
    if (seq !== this.#next || body.seq !== this.#next) return bad('an event is missing before it', this.#next, body.seq)
    if (body.prev !== this.#last) return bad('it does not follow the event before it', this.#last, body.prev)
    const found = toHex(await leafHash(utf8(canonical(body))))
    return found === hash ? null : bad('it is not what was recorded', hash, found)
  }
}
