import { expect, it } from 'vitest'
import type { RunEvent } from '../../api/runs'
import { childIn, drawn, folded, holding, linesOf, nameOf, stretchesOf, troubleIn } from './lines'

let seq = 0
const event = (type: string, at: number, more: Partial<RunEvent> = {}): RunEvent => ({
  id: `evt_${seq}`, seq: seq++, type, at: new Date(at).toISOString(), actor: 'agent', told_by: 'agent', step: null, status: 'recorded',
  side_effect: 'none', tool: null, effect_id: null, effect_status: null, payload: null, ...more,
})
const of = (effect_id: string, effect_status = 'succeeded', tool = 'crm.get') => ({ effect_id, effect_status, tool })

it('tells waiting for a person from work, and what is still open', () => {
  const events = [event('approval_requested', 0), event('approval_voted', 5), event('approval_received', 10), event('tool_call_started', 12), event('tool_call_finished', 20)]
  expect(stretchesOf(events)).toEqual([
    { kind: 'waiting', from: 0, to: 10 },
    { kind: 'ready', from: 10, to: 12 },
    { kind: 'executing', from: 12, to: 20 },
  ])
  expect(stretchesOf([event('tool_call_started', 0), event('tool_call_in_doubt', 3)]).at(-1)).toEqual({ kind: 'in_doubt', from: 3, to: null })
})

it('never draws time backwards when a clock was set back', () => {
  expect(stretchesOf([event('tool_call_started', 50), event('tool_call_finished', 10)])).toEqual([{ kind: 'executing', from: 50, to: 50 }])
})

it('gives each effect one line, where it began', () => {
  const lines = linesOf([event('run_started', 0), event('tool_call_started', 1, of('a', 'processing')), event('plan_locked', 2), event('tool_call_finished', 3, of('a'))])
  expect(lines.map((line) => (line.is === 'effect' ? `${line.tool} ${line.status} ${line.events.length}` : line.event.type))).toEqual(['run_started', 'crm.get succeeded 2', 'plan_locked'])
})

it('folds many equal neighbours, and nothing that went wrong', () => {
  const calls = ['a', 'b', 'c', 'd'].map((id, at) => event('tool_call_finished', at, of(id)))
  expect(folded(linesOf(calls))).toMatchObject([{ is: 'folded', tool: 'crm.get', lines: { length: 4 } }])
  expect(folded(linesOf(calls.slice(0, 3)))).toHaveLength(3)
  const bad = calls.map((one) => ({ ...one, effect_status: 'failed' }))
  expect(folded(linesOf(bad))).toHaveLength(4)
  const mixed = [...calls.slice(0, 2), event('plan_locked', 9), ...calls.slice(2)]
  expect(folded(linesOf(mixed))).toHaveLength(5)
})

it('knows what was done in another run', () => {
  expect(linesOf([event('tool_call_adopted', 0, of('a'))])).toMatchObject([{ isReplayed: true }])
})

it('names the line on which a run failed', () => {
  const lines = linesOf([event('tool_call_in_doubt', 0, { ...of('a', 'in_doubt'), payload: 'no answer' }), event('run_failed', 1, { payload: 'TimeoutError' })])
  expect(troubleIn(lines, 'failed')).toEqual({ seq: lines[0]!.seq, words: 'no answer' })
  expect(troubleIn(lines.slice(1), 'failed')).toMatchObject({ words: 'TimeoutError' })
  expect(troubleIn(lines, 'completed')).toBeNull()
})

it('opens what somebody opens, and finds the line that holds an event', () => {
  const calls = ['a', 'b', 'c', 'd'].flatMap((id, at) => [event('tool_call_started', at, of(id)), event('tool_call_finished', at, of(id))])
  const lines = folded(linesOf([event('run_started', 0), ...calls]))
  const fold = lines[1]!
  const kinds = (...opened: string[]) => drawn(lines, new Set(opened)).map((line) => line.is)
  expect(kinds()).toEqual(['event', 'folded'])
  expect(kinds(nameOf(fold))).toEqual(['event', 'folded', 'effect', 'effect', 'effect', 'effect'])
  expect(kinds(nameOf(fold), `effect-${fold.seq}`)).toEqual(['event', 'folded', 'effect', 'part', 'part', 'effect', 'effect', 'effect'])
  expect(holding(lines, calls[3]!.seq)).toMatchObject({ line: { effectId: 'b' }, fold: { is: 'folded' } })
  expect(holding(lines, lines[0]!.seq)).toMatchObject({ line: { is: 'event' }, fold: null })
  expect(holding(lines, 9999)).toBeNull()
})

it('gives what cannot be read no time', () => {
  expect(stretchesOf([{ ...event('tool_call_started', 0), at: '' }])).toEqual([])
})

it('leads to the run that work was delegated to, and nowhere else', () => {
  expect(childIn(event('delegation_started', 0, { payload: { run: 'run_1' } }))).toBe('run_1')
  expect(childIn(event('delegation_finished', 0, { payload: { runId: 'run_1' } }))).toBe('run_1')
  expect(childIn(event('artifact_created', 0, { payload: { run: 'run_1' } }))).toBeNull()
  expect(childIn(event('delegation_started', 0, { payload: 'run_1' }))).toBeNull()
})
