import { expect, it } from 'vitest'
import { readCanonical } from './canonical'
import { isDigestOfApproval } from './identity'

it('reads a value only from the one text that would be written of it again', () => {
  expect(readCanonical('{"amount":4200,"to":"ada"}')).toEqual({ value: { amount: 4200, to: 'ada' } })
  expect(readCanonical('{"n":{"$int":"9007199254740993"}}')).toEqual({ value: { n: { $int: '9007199254740993' } } })
  for (const text of ['{"n":9007199254740993}', '{"to":"ada","amount":1}', '{"a":1,"a":2}', '{"a": 1}', '{"a":1.0}', '{"a":', '']) {
    expect(readCanonical(text)).toBeNull()
  }
})

// As the library computed it: core.approvals.approval_digest.
const APPROVAL = {
  digest: 'db2f03944c7277e04637e447342ef5cec3a6525bb8d32f4171704ef7655561d2',
  id: 'apr_1',
  for_run: 'order-123',
  tool: 'stripe.refund',
  schema: 'ab'.repeat(32),
  policy: 'none',
  expires_at: '2030-01-31T12:00:00.000000Z',
}
const ARGS = '{"amount":4200,"name":"Zoë"}'

it('knows the digest of a call from that of any other', async () => {
  expect(await isDigestOfApproval(APPROVAL, ARGS, 'default')).toBe(true)
  expect(await isDigestOfApproval(APPROVAL, ARGS.replace('4200', '4201'), 'default')).toBe(false)
  expect(await isDigestOfApproval(APPROVAL, ARGS, 'acme')).toBe(false)
  for (const name of ['id', 'for_run', 'tool', 'schema', 'policy', 'expires_at'] as const) {
    expect(await isDigestOfApproval({ ...APPROVAL, [name]: 'other' }, ARGS, 'default')).toBe(false)
  }
})
