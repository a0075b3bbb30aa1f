import { expect, it } from 'vitest'
import type { Entry } from '../../api/asks'
import { attemptsIn, milestoneOf, nextOf } from './attempts'

const entry = (seq: number, type: string, attempt: number, status = 'processing'): Entry => ({
  run_id: 'r', seq, index: null, type, effect_id: 'eff_1', hash: '', body: { at: '2030-01-01T00:00:00Z', actor: { id: 'ana', kind: 'person', via: 'api_key' }, attempt, status },
})
const read = (...entries: Entry[]) => attemptsIn(entries.map(milestoneOf))

it('gives each entry into the handler its end', () => {
  const found = read(entry(0, 'approval_requested', 0), entry(1, 'tool_call_started', 1), entry(2, 'tool_call_in_doubt', 1), entry(3, 'tool_call_released', 1), entry(4, 'tool_call_started', 2), entry(5, 'tool_call_finished', 2))
  expect(found.map((one) => [one.number, one.began.seq, one.ended?.type])).toEqual([[1, 1, 'tool_call_in_doubt'], [2, 4, 'tool_call_finished']])
})
it('leaves an attempt open that nobody reported of', () => {
  expect(read(entry(0, 'tool_call_started', 1))).toMatchObject([{ ended: null }])
  expect(read(entry(0, 'tool_call_started', 1), entry(1, 'approval_viewed', 1))).toMatchObject([{ ended: null }])
})
it('puts a late result to the attempt it is of', () => {
  const found = read(entry(0, 'tool_call_started', 1), entry(1, 'tool_call_in_doubt', 1), entry(2, 'tool_call_started', 2), entry(3, 'tool_call_late', 1))
  expect(found.map((one) => one.late.length)).toEqual([1, 0])
  expect(found[1]!.ended).toBeNull()
})
it('reads what is missing as empty', () => {
  expect(milestoneOf({ ...entry(0, 'x', 1), body: {} })).toEqual({ seq: 0, type: 'x', at: '', by: '', via: '', status: '', attempt: 0 })
})
it('says what comes next only where something can', () => {
  expect(nextOf({ status: 'in_doubt', lease_until: null })).toMatch(/settles/)
  expect(nextOf({ status: 'succeeded', lease_until: null })).toBeNull()
})
