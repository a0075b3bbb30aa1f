import { expect, it } from 'vitest'
import type { Approval } from '../../api/asks'
import { alike, MOST_TOGETHER } from './alike'

const made = (id: string, words: Partial<Approval> = {}): Approval =>
  ({ id, status: 'pending', tool: 'mail.send', side_effect: 'notification', rule: 'ask-mail', policy: 'p1', schema: 's1', needs_signature: false, ...words }) as Approval

it('puts together what one rule asks about one tool', () => {
  const others = [made('b'), made('c', { tool: 'mail.drop' }), made('d', { rule: 'other' }), made('e', { policy: 'p2' }), made('f', { schema: 's2' }), made('g', { status: 'denied' }), made('a')]
  expect(alike(made('a'), others).map((one) => one.id)).toEqual(['b'])
})

it('never puts payments together, nor what is signed one by one', () => {
  const payment = { side_effect: 'payment' } as const
  expect(alike(made('a', payment), [made('b', payment)])).toEqual([])
  expect(alike(made('a', { needs_signature: true }), [made('b', { needs_signature: true })])).toEqual([])
})

it('puts no more together than a person reads', () => {
  expect(alike(made('a'), Array.from({ length: 50 }, (_, at) => made(`b${at}`)))).toHaveLength(MOST_TOGETHER)
})
