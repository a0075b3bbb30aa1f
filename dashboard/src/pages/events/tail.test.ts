import { expect, it } from 'vitest'
import type { Entry } from '../../api/asks'
import { changed, MOST, NOTHING, type Change, type Tail } from './tail'

const entry = (index: number): Entry => ({ run_id: 'r', seq: index, index, type: 'x', effect_id: null, hash: '', body: {} })
const entries = (from: number, count: number) => Array.from({ length: count }, (_, at) => entry(from + at))
const after = (...changes: Change[]) => changes.reduce<Tail>(changed, NOTHING)
const begun = (from: number, count: number): Change => ({ is: 'begun', entries: entries(from, count), from })

it('shows what comes, each once', () => {
  const tail = after(begun(10, 2), { is: 'came', entries: entries(11, 3) }, { is: 'came', entries: entries(13, 1) })
  expect(tail.shown.map((one) => one.index)).toEqual([10, 11, 12, 13])
})
it('holds back what comes while somebody reads, and shows it afterwards', () => {
  const reading = after(begun(0, 2), { is: 'followed', on: false }, { is: 'came', entries: entries(2, 2) }, { is: 'came', entries: entries(3, 2) })
  expect([reading.shown.length, reading.held.length]).toEqual([2, 3])
  expect(changed(reading, { is: 'followed', on: true }).shown.map((one) => one.index)).toEqual([0, 1, 2, 3, 4])
})
it('goes further back', () => {
  const tail = after(begun(10, 2), { is: 'older', entries: entries(5, 2), from: 5 })
  expect([tail.from, tail.shown.map((one) => one.index)]).toEqual([5, [5, 6, 10, 11]])
})
it('keeps no more than a page can hold, and says from where on', () => {
  const tail = after(begun(0, MOST), { is: 'came', entries: entries(MOST, 10) })
  expect([tail.shown.length, tail.from]).toEqual([MOST, 10])
  const held = after(begun(0, 1), { is: 'followed', on: false }, { is: 'came', entries: entries(1, MOST + 5) })
  expect(held.held).toHaveLength(MOST)
})
