import { expect, it } from 'vitest'
import { rulesOf } from './rules'

it('says of each rule when it applies and whom it asks, in their order', () => {
  const rules = [
    { name: 'small', match: { tool: 'stripe.refund', args: { amount: { lte: 50 } } }, then: 'allow' },
    { name: 'big', match: { tool: ['a', 'b'], args: { 'order.id': { exists: false }, note: { length: { gt: 3 } } } }, then: 'ask', why: 'two look', approvals: { needs: [{ role: 'finance', count: 2 }], expires: '4h' } },
    { name: 'rest', then: 'refuse' },
  ]
  expect(rulesOf({ rules })).toEqual([
    { name: 'small', when: 'tool stripe.refund and amount ≤ 50', then: 'allow', asks: '', why: '' },
    { name: 'big', when: 'tool a or b and order.id is not there and length of note > 3', then: 'ask', asks: '2 of finance, within 4h', why: 'two look' },
    { name: 'rest', when: 'every call', then: 'refuse', asks: '', why: '' },
  ])
})

it('takes from the policy what a rule does not say itself', () => {
  const rule = (approvals?: object) => ({ name: 'r', then: 'ask', ...(approvals && { approvals }) })
  const asks = (own?: object) => rulesOf({ approvals: { quorum: 2, expires: '1h' }, rules: [rule(own)] })[0]!.asks
  expect(asks()).toBe('2 people, within 1h')
  expect(asks({ needs: [{ role: 'finance' }] })).toBe('1 of finance, within 1h')
  expect(asks({ expires: '5m', signed: true })).toBe('2 people, signed, within 5m')
})

it('reads nothing into what is no policy', () => {
  for (const other of [null, [], 'x', { rules: 'x' }, { rules: [1, null] }]) expect(rulesOf(other)).toEqual([])
})
