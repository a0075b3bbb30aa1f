import { expect, it } from 'vitest'
import { budgetNamed } from './budgets'

it('says what a budget counts, for whom and for how long', () => {
  expect(budgetNamed('refunds a day {"seconds":86400,"sum":"amount"}')).toEqual({ name: 'refunds a day', counts: 'sum of amount, in any 1 d' })
  expect(budgetNamed('mails {x} {"agent":"billing","seconds":3600}')).toEqual({ name: 'mails {x}', counts: 'calls, in any 1 h · agent billing' })
  for (const other of ['plain', 'mails {#0a1b}', 'mails {"sum":"amount"}']) expect(budgetNamed(other)).toEqual({ name: other, counts: '' })
})
