import { expect, it } from 'vitest'
import { LINE, rowsOf } from './rows'

it('shows members in their order, with their depth', () => {
  expect(rowsOf({ amount: 5, to: ['a'], note: null }).map((row) => [row.depth, row.name, row.text])).toEqual([
    [0, null, '{'],
    [1, 'amount', '5'],
    [1, 'to', '['],
    [2, 0, '"a"'],
    [1, null, ']'],
    [1, 'note', 'null'],
    [0, null, '}'],
  ])
})

it('loses no character of a long text', () => {
  const text = 'ab👍\n"q"\\'.repeat(500)
  const shown = rowsOf(text).map((row) => row.text).join('')
  expect(JSON.parse(shown)).toBe(text)
  expect(rowsOf(text).every((row) => [...row.text].length <= 2 * LINE + 2)).toBe(true)
})

it('says empty things as such', () => {
  expect(rowsOf({}).map((row) => row.text)).toEqual(['{}'])
  expect(rowsOf('').map((row) => row.text)).toEqual(['""'])
})
