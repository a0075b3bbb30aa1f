// @vitest-environment jsdom
import { expect, it } from 'vitest'
import { Problem } from '../api/client'
import { flawOf, marked } from './filter'

it('marks what is wrong by its place', () => {
  expect(marked('tool:x foo:1 y', 8, 3)).toEqual({ before: 'tool:x ', bad: 'foo', after: ':1 y' })
})
it('counts characters, and not halves of them', () => {
  expect(marked('👍👍 foo:1', 4, 3)).toEqual({ before: '👍👍 ', bad: 'foo', after: ':1' })
})
it('stays inside the text', () => {
  expect(marked('ab', 9, 4)).toEqual({ before: 'ab', bad: '', after: '' })
  expect(marked('ab', 2, 99)).toEqual({ before: 'a', bad: 'b', after: '' })
})
it('knows the problem by its kind', () => {
  const problem = new Problem(400, 'https://x/problems/bad-filter', 'No', 'column 1', { column: 1, length: 3 })
  expect(flawOf(problem, 'foo:1')).toEqual({ before: '', bad: 'foo', after: ':1', why: 'column 1' })
  expect(flawOf(new Problem(404, 'x/unknown-run', 'No', ''), 'foo:1')).toBeNull()
})
