import { expect, it } from 'vitest'
import { stacked, stretches, totals } from './stacking'

const figures = [
  { at: '2030-01-01T01:00:00Z', group: 'failed', count: 1 },
  { at: '2030-01-01T00:00:00Z', group: 'succeeded', count: 3 },
  { at: '2030-01-01T01:00:00Z', group: 'succeeded', count: 2 },
]

it('stacks groups in one order, moments in theirs', () => {
  const { bars, groups, highest } = stacked(figures)
  expect(groups).toEqual(['failed', 'succeeded'])
  expect(highest).toBe(3)
  expect(bars.map((bar) => bar.at)).toEqual(['2030-01-01T00:00:00.000Z', '2030-01-01T01:00:00.000Z'])
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

it('leaves no gap where nothing happened', () => {
  const moments = stretches({ since: '2030-01-01T00:10:00Z', until: '2030-01-01T03:00:00Z', interval: '1h' })
  expect(moments).toHaveLength(3)
  const { bars } = stacked(figures, moments)
  expect(bars.map((bar) => bar.total)).toEqual([3, 3, 0])
})
