// @vitest-environment jsdom
import { expect, it } from 'vitest'
import { fromBase64 } from './bytes'
import fixture from './consistency.fixture.json'
import { continues } from './consistency'

// Proofs that the library made.
const rootOf = (size: number) => fromBase64((fixture.roots as Record<string, string>)[String(size)]!)
const asked = (old: number, size: number, proof: string[]) => continues(old, size, rootOf(old), rootOf(size), proof.map(fromBase64))

it('follows every proof of the library', async () => {
  for (const { old, new: size, proof } of fixture.proofs) expect(await asked(old, size, proof), `${old} of ${size}`).toBe(true)
})

it('believes no proof of another tree, and none that was cut, lengthened or changed', async () => {
  for (const { old, new: size, proof } of fixture.proofs.filter((one) => one.old < one.new)) {
    const other = [6, 7, 8].find((one) => one !== old && one !== size)!
    expect(await continues(old, size, rootOf(other), rootOf(size), proof.map(fromBase64))).toBe(false)
    expect(await continues(old, size, rootOf(old), rootOf(other), proof.map(fromBase64))).toBe(false)
    expect(await asked(old, size, proof.slice(0, -1))).toBe(false)
    expect(await asked(old, size, [...proof, proof[0]!])).toBe(false)
    expect(await asked(old, size, [...proof.slice(0, -1), fixture.roots['3']])).toBe(false)
  }
  expect(await continues(0, 3, rootOf(1), rootOf(3), [])).toBe(false)
})
