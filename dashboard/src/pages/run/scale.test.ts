import { expect, it } from 'vitest'
import { idle, joined, Scale } from './scale'

it('is straight where nothing is idle', () => {
  const scale = new Scale([0, 500, 1000], true)
  expect([-5, 0, 250, 500, 1000, 2000].map((at) => scale.place(at))).toEqual([0, 0, 0.25, 0.5, 1, 1])
  expect(scale.folds).toEqual([])
})

it('folds a long silence, and leaves the work its room', () => {
  const hour = 3_600_000
  const scale = new Scale([0, 1000, 1000 + hour, 2000 + hour], true)
  expect(scale.folds).toHaveLength(1)
  expect(scale.place(1000)).toBeCloseTo(0.47)
  expect(scale.place(1000 + hour)).toBeCloseTo(0.53)
  expect(scale.place(1000 + hour / 2)).toBeCloseTo(0.5)
  expect(new Scale([0, 1000, 1000 + hour], false).place(1000)).toBeLessThan(0.001)
})

it('finds silences at every scale, however many', () => {
  expect(idle([10, 20, 5000, 7_200_000, 7_200_000])).toEqual([false, false, true, true, true])
  expect(idle([1000, 1000, 1000, 2500])).toEqual([false, false, false, false])
  expect(idle([60_000])).toEqual([false]) // there is nothing to make room for
})

it('leaves the work most of the room, however many silences there are', () => {
  const moments = Array.from({ length: 60 }, (_, at) => at * 100_000).flatMap((at) => [at, at + 10])
  const scale = new Scale(moments, true)
  expect(scale.folds).toHaveLength(59)
  expect(scale.folds.reduce((sum, fold) => sum + fold.right - fold.left, 0)).toBeCloseTo(0.4)
})

it('never goes backwards and fills the whole width', () => {
  const moments = Array.from({ length: 300 }, (_, at) => ((at * 7919) % 1000) ** 3)
  for (const isFolding of [true, false]) {
    const scale = new Scale(moments, isFolding)
    const places = [...moments].sort((one, other) => one - other).map((moment) => scale.place(moment))
    expect(places.every((place, index) => index === 0 || place >= places[index - 1]!)).toBe(true)
    expect([places[0], places.at(-1)]).toEqual([0, 1])
  }
})

it('has a place for everything when all happened at once, or nothing did', () => {
  expect(new Scale([7, 7], true).place(7)).toBe(0)
  expect(new Scale([], true).place(7)).toBe(0)
})

it('draws thousands of calls as few bars, and leaves gaps that can be seen', () => {
  expect(joined([[0.5, 0.6], [0, 0.1], [0.05, 0.2], [0.2005, 0.3]])).toEqual([[0, 0.3], [0.5, 0.6]])
  const many = Array.from({ length: 20_000 }, (_, at): [number, number] => [at / 20_000, at / 20_000])
  expect(joined(many)).toEqual([[0, 19_999 / 20_000]])
  expect(joined(Array.from({ length: 20_000 }, (_, at): [number, number] => [(at % 400) / 400, (at % 400) / 400])).length).toBe(400)
})

it('gives all room to a stretch that is looked at alone, and knows which moment stands where', () => {
  const all = new Scale([0, 500, 1000], true)
  const part = new Scale([0, 500, 1000], true, { from: 250, to: 750 })
  expect([all.isCloser, part.isCloser]).toEqual([false, true])
  expect([0, 250, 500, 750, 1000].map((at) => part.place(at))).toEqual([-0.5, 0, 0.5, 1, 1.5])
  expect([0, 0.5, 1].map((place) => part.moment(place))).toEqual([250, 500, 750])
  expect(all.around(0.5)).toEqual({ from: 250, to: 750 })
  expect(part.around(0.5)).toEqual({ from: 375, to: 625 })
  expect(part.around(2)).toBeNull()
  expect(new Scale([0, 500, 1000], true, { from: 2000, to: 3000 }).isCloser).toBe(false)
  expect(new Scale([7], true).moment(0.5)).toBe(7)
})

it('finds the moment inside a fold and beside it, and leaves out folds that are not in sight', () => {
  const hour = 3_600_000
  const moments = [0, 1000, 1000 + hour, 2000 + hour]
  const whole = new Scale(moments, true)
  for (const at of [0, 400, 1000, 1000 + hour / 2, 1000 + hour, 1700 + hour]) expect(whole.moment(whole.place(at))).toBeCloseTo(at, 3)
  expect(new Scale(moments, true, { from: 0, to: 900 }).folds).toEqual([])
  const [fold] = new Scale(moments, true, { from: 500, to: 1000 + hour }).folds
  expect(fold!.right).toBeCloseTo(1)
})
