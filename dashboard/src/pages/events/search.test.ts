import { expect, it } from 'vitest'
import { eventsSearch, filterOf, toggled } from './search'

it('reads an address, and leaves out what it does not know', () => {
  expect(eventsSearch({ q: 'tool:x', kinds: ['runs', 'nonsense', 'calls'], sides: 'payment', more: 1 })).toEqual({ q: 'tool:x', kinds: ['calls', 'runs'] })
  expect(eventsSearch({ q: 123 })).toEqual({ q: '123' })
  expect(eventsSearch({ q: '', kinds: [] })).toEqual({})
})
it('makes one filter of all that was chosen', () => {
  expect(filterOf({ q: ' run:x ', kinds: ['calls', 'approvals'], sides: ['payment'] })).toBe('run:x type:tool_call_*,approval_* side_effect:payment')
  expect(filterOf({})).toBe('')
})
it('adds and takes out', () => {
  expect(toggled(['a'], 'b')).toEqual(['a', 'b'])
  expect(toggled(['a', 'b'], 'a')).toEqual(['b'])
})
