import { expect, it } from 'vitest'
import fixture from './identity.fixture.json'
import { choices, isDigestOf, keyOf } from './identity'

// Keys and digests that the library made.
const EXPECTED = {
  all: { is: 'args', withCall: false },
  repeat: { is: 'args', withCall: true },
  one: { is: 'fields', fields: ['order_id'], withCall: false },
  two: { is: 'fields', fields: ['order_id', 'amount'], withCall: false },
  inner: { is: 'fields', fields: ['customer.id'], withCall: false },
  call: { is: 'args', withCall: true },
  scope: { is: 'args', withCall: false },
  resource: { is: 'unknown' },
}

it.each(Object.entries(EXPECTED))('finds what made the key of %s', async (name, expected) => {
  const call = fixture.find((one) => one.name === name)!
  expect(await keyOf(call, 'default')).toEqual(expected)
  expect(await keyOf(call, 'another')).toEqual({ is: 'unknown' })
})

it('knows the digest of these arguments from that of others', async () => {
  const call = fixture[0]!
  expect(await isDigestOf(call, 'default')).toBe(true)
  expect(await isDigestOf({ ...call, args: { ...call.args, amount: 6 } }, 'default')).toBe(false)
})

it('does not try for ever', () => {
  expect(choices(Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a${at}`, at])))).toHaveLength(40)
  expect(choices(null)).toEqual([])
})
