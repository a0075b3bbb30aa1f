// @vitest-environment node
import { expect, it } from 'vitest'
import { placed, type Page } from './placing'

type Thing = { id: string; word?: string }
const pages: Page<Thing>[] = [
  { things: [{ id: 'f' }, { id: 'd' }], next: 'd' },
  { things: [{ id: 'c' }], next: 'c' },
]
const ids = (of: Page<Thing>[]) => of.map((page) => page.things.map((one) => one.id).join(''))

it('changes a thing where it stands', () => {
  expect(placed(pages, 'd', { id: 'd', word: 'new' })[0]!.things[1]).toEqual({ id: 'd', word: 'new' })
})
it('puts a new thing where it belongs', () => {
  expect(ids(placed(pages, 'z', { id: 'z' }))).toEqual(['zfd', 'c'])
  expect(ids(placed(pages, 'e', { id: 'e' }))).toEqual(['fed', 'c'])
  expect(ids(placed(pages, 'cc', { id: 'cc' }))).toEqual(['fd', 'ccc'])
})
it('leaves to a later page what belongs there', () => {
  expect(ids(placed(pages, 'a', { id: 'a' }))).toEqual(['fd', 'c'])
  expect(ids(placed([{ things: [], next: null }], 'a', { id: 'a' }))).toEqual(['a'])
})
it('takes out what does not fit any more, and misses nothing that was not there', () => {
  expect(ids(placed(pages, 'f', null))).toEqual(['d', 'c'])
  expect(ids(placed(pages, 'x', null))).toEqual(['fd', 'c'])
})
