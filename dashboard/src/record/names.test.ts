import { expect, it } from 'vitest'
import { lettersOf } from './labels'
import { folded, looksLike, samePerson } from './names'

// The same as in tests/core/approvals/test_approvals.py.
const DOMAINS = [
  ['a@bücher.example', 'a@xn--bcher-kva.example'],
  ['a@BÜCHER.example', 'a@xn--bcher-kva.example'],
  ['a@bu\u0308cher.example', 'A@XN--BCHER-KVA.EXAMPLE'],
  ['a@bücher\u3002example', 'a@xn--bcher-kva.example'],
  ['a@bücher\uff61example', 'a@xn--bcher-kva.example'],
  ['a＠ｂücher．ｅxample', 'a@xn--bcher-kva.example'],
  ['a@ｘn--bcher-kva.example', 'a@bücher.example'],
  ['a@bü\u200dcher.example', 'a@xn--bcher-kva.example'],
  ['a@b.bücher.example.', 'a@b.xn--bcher-kva.example'],
  ['a@straße.example', 'a@xn--strae-oqa.example'],
  ['a@STRASSE.example', 'a@xn--strae-oqa.example'],
  ['a@-ü.example', 'a@xn----eha.example'],
  ['a@例え.テスト', 'a@xn--r8jz45g.xn--zckzah'],
] as const

it.each(DOMAINS)('takes %s and %s for one person', (one, other) => {
  expect(samePerson(one, other)).toBe(true)
  expect(folded(folded(one))).toBe(folded(one))
})

it('reads only the domain of an address as DNS has it', () => {
  expect(samePerson('xn--bcher-kva.example', 'bücher.example')).toBe(false)
  expect(samePerson('a@xn--bcher-kva.example', 'a@bucher.example')).toBe(false)
  expect(looksLike('a@xn--80ak6aa92e.com', 'a@apple.com')).toBe(true)
})

const NO_LETTERS = ['xn--', 'xn--abc-', 'xn---tda', 'xn--bcher_kva', 'xn--99999999', 'xn--a-b!', `xn--${'a'.repeat(60)}`, 'xn--ib9b', 'xn--bü', 'bücher', 'xn']

it.each(NO_LETTERS)('leaves the label %s as it is', (label) => {
  expect(lettersOf(label)).toBe(null)
  expect(folded(`a@${label}.example`)).toBe(`a@${label}.example`)
})
