import { expect, it } from 'vitest'
import { byBeginning, placed, type Page } from './placing'

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
it('puts a run by when it began, whatever it is called', () => {
  const runs = [{ things: [{ id: 'a', created_at: '2026-03' }, { id: 'z', created_at: '2026-01' }], next: 'z' }]
  const after = (id: string, created_at: string) => ids(placed(runs, id, { id, created_at }, byBeginning))
  expect(after('b', '2026-04')).toEqual(['baz'])
  expect(after('b', '2026-02')).toEqual(['abz'])
  expect(after('b', '2026-03')).toEqual(['baz'])
  expect(after('b', '2025-12')).toEqual(['az'])
})
it('leaves to a later page what belongs there', () => {
  expect(ids(placed(pages, 'a', { id: 'a' }))).toEqual(['fd', 'c'])
  expect(ids(placed([{ things: [], next: null }], 'a', { id: 'a' }))).toEqual(['a'])
})
it('takes out what does not fit any more, and misses nothing that was not there', () => {
  expect(ids(placed(pages, 'f', null))).toEqual(['d', 'c'])
  expect(ids(placed(pages, 'x', null))).toEqual(['fd', 'c'])
})
