import { expect, it } from 'vitest'
import { LINE, rowsOf } from './rows'

it('shows members in their order, with their depth', () => {
  expect(rowsOf({ amount: 5, to: ['a'], note: null }).map((row) => [row.depth, row.name, row.text])).toEqual([
    [0, null, '{'],
    [1, 'amount', '5'],
    [1, 'to', '['],
    [2, '0', '"a"'],
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

it.each(['x'.repeat(1000), '👍'.repeat(1000), '"'.repeat(500)])('loses no character of a long name, and leaves room for the value', (name) => {
  const rows = rowsOf({ [name]: 7 })
  const shown = rows.filter((row) => row.kind === 'name').map((row) => row.text).join('').slice(0, -1)
  expect(shown === name || JSON.parse(shown) === name).toBe(true)
  expect(rows.every((row) => row.text.length <= 2 * LINE + 2)).toBe(true)
  expect(rows.at(-2)).toEqual({ depth: 2, name: null, text: '7', kind: 'number' })
})

it('gives characters that are told by their names more room', () => {
  expect(rowsOf('\u200b'.repeat(1000)).every((row) => row.text.length <= LINE / 8 + 2)).toBe(true)
})

it.each(['', ' ', 'amount: 5', 'a\nb', '"', 'a\u200bb', '\u2800'])('quotes the name %j, so that it cannot pass for something else', (name) => {
  const shown = rowsOf({ [name]: 1 })[1]!.name!
  expect(shown.startsWith('"') && shown.endsWith('"') && !shown.includes('\n')).toBe(true)
})

it('takes names of an object’s own workings for names', () => {
  const value = JSON.parse('{"__proto__": {"x": 1}, "constructor": 2, "toString": "no"}') as unknown
  expect(rowsOf(value).map((row) => row.name)).toEqual([null, '__proto__', 'x', null, 'constructor', 'toString', null])
})

it('says empty things as such', () => {
  expect(rowsOf({}).map((row) => row.text)).toEqual(['{}'])
  expect(rowsOf('').map((row) => row.text)).toEqual(['""'])
})
