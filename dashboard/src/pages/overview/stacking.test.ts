import { expect, it } from 'vitest'
import { stacked, totals } from './stacking'

const figures = [
  { at: '2030-01-01T01:00:00Z', group: 'failed', count: 1 },
  { at: '2030-01-01T00:00:00Z', group: 'succeeded', count: 3 },
  { at: '2030-01-01T01:00:00Z', group: 'succeeded', count: 2 },
]

it('stacks groups in one order, moments in theirs', () => {
  const { bars, groups, highest } = stacked(figures)
  expect(groups).toEqual(['failed', 'succeeded'])
  expect(highest).toBe(3)
  expect(bars.map((bar) => bar.at)).toEqual(['2030-01-01T00:00:00Z', '2030-01-01T01:00:00Z'])
  expect(bars[1]!.segments).toEqual([
    { group: 'failed', count: 1, from: 0 },
    { group: 'succeeded', count: 2, from: 1 },
  ])
})

it('adds up, the most first', () => {
  expect(totals(figures)).toEqual([['succeeded', 5], ['failed', 1]])
})

it('draws nothing of nothing', () => {
  expect(stacked([])).toEqual({ bars: [], groups: [], highest: 1 })
})
