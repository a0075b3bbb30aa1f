import { expect, it } from 'vitest'
import { fromNow, length, span, written } from './time'

it.each([[0, '0 s'], [59, '59 s'], [60, '1 min'], [7505, '2 h 5 min'], [90_061, '1 d 1 h']])('says %d seconds', (seconds, said) => {
  expect(span(seconds)).toBe(said)
})
it('says which side of now', () => {
  const at = Date.parse('2030-01-01T00:00:00Z')
  expect(fromNow('2030-01-01T00:01:00Z', at)).toBe('in 1 min')
  expect(fromNow('2029-12-31T23:59:00Z', at)).toBe('1 min ago')
  expect(fromNow('2030-01-01T00:00:01Z', at)).toBe('just now')
})
it('writes UTC as such', () => {
  expect(written('2030-01-01T00:00:00.123456Z', 'utc')).toBe('2030-01-01 00:00:00.123 UTC')
})
it.each([[0.4, '0 ms'], [999, '999 ms'], [1500, '1.5 s'], [42_300, '42 s'], [7_505_000, '2 h 5 min']])('says that %d milliseconds passed', (milliseconds, said) => {
  expect(length(milliseconds)).toBe(said)
})
