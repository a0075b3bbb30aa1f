import { expect, it } from 'vitest'
import fixture from './journal.fixture.json'
import { fromBase64, toHex } from './bytes'
import { canonical } from './canonical'
import { RunChain, type ChainEvent } from './chain'
import { leafHash } from './merkle'
import { unpack } from './verify'

/** Gives the events of the run that has most of them, as the library recorded and sealed them. */
async function events(): Promise<ChainEvent[]> {
  const entries = fixture.tiles.flatMap((tile, number) => unpack(fromBase64(tile.entries), number, countIn(tile.hashes)))
  const all = await Promise.all(entries.map(async (entry) => {
    const text = new TextDecoder().decode(entry)
    const body = JSON.parse(text) as { run: string; seq: number }
    expect(canonical(body)).toBe(text) // each body has one text, and we write that one
    return { run_id: body.run, seq: body.seq, hash: toHex(await leafHash(entry)), body }
  }))
  const of = (run: string) => all.filter((event) => event.run_id === run)
  return [...new Set(all.map((event) => event.run_id))].map(of).sort((one, other) => other.length - one.length)[0]!
}
const countIn = (hashes: string) => fromBase64(hashes).length / 32

it('follows a run that the library recorded', async () => {
  const all = await events()
  const chain = new RunChain(all[0]!.run_id)
  expect(await chain.follow(all.slice(0, 3))).toBeNull()
  expect(await chain.follow(all.slice(3))).toBeNull()
  expect([chain.count, chain.head]).toEqual([all.length, all.at(-1)!.hash])
})

it('names the event that was edited, left out, or moved', async () => {
  const all = await events()
  const follow = (changed: ChainEvent[]) => new RunChain(all[0]!.run_id).follow(changed)
  const edited = all.map((event, at) => (at === 2 ? { ...event, body: { ...event.body, at: '2030-01-01T00:00:00Z' } } : event))
  expect(await follow(edited)).toMatchObject({ seq: 2, what: expect.stringMatching(/not what was recorded/) as string })
  expect(await follow(all.filter((_, at) => at !== 1))).toMatchObject({ seq: 2, what: expect.stringMatching(/missing/) as string })
  const rehashed = await Promise.all(edited.map(async (event) => ({ ...event, hash: toHex(await leafHash(new TextEncoder().encode(canonical(event.body)))) })))
  expect(await follow(rehashed)).toMatchObject({ seq: 3, what: expect.stringMatching(/does not follow/) as string })
  expect(await new RunChain('another').follow(all)).toMatchObject({ seq: 0, what: expect.stringMatching(/another run/) as string })
})

it('writes what RFC 8785 wants', () => {
  expect(canonical({ b: [1, 1e21, 0.000001, null, true], a: '\u20ac$\u000f\nA"\\', '\u{1f600}': 1, '\ufb33': 2 })).toBe(
    '{"a":"€$\\u000f\\nA\\"\\\\","b":[1,1e+21,0.000001,null,true],"😀":1,"\ufb33":2}',
  )
})
