import { expect, it } from 'vitest'
import type { Approval } from '../../api/asks'
import type { EffectLine, Story } from '../../api/runs'
import { nextAction, standingOf } from './standing'

const line = (id: string, status: string, side_effect: EffectLine['side_effect'] = 'payment'): EffectLine => ({ id, tool: `tool.${id}`, side_effect, status, attempt: 1, key: `key-${id}`, opened_seq: 0, seq: 0 })
const story = (effects: EffectLine[], more: Partial<Story> = {}): Story => ({
  run_id: 'r', events: 9, head: '', current_step: null, progress: 0, last_safe_event: null, artifacts: [], effects, checkpoints: {}, open_delegations: [],
  blocked_side_effect_keys: effects.map((one) => one.key!), in_doubt: effects.filter((one) => one.status === 'in_doubt'), broken: null, ...more,
})

it('names what is never repeated: what was entered and did not fail, unless it only reads or writes', () => {
  const standing = standingOf(story([line('a', 'succeeded'), line('b', 'failed'), line('c', 'succeeded', 'read'), line('d', 'in_doubt'), line('e', 'denied')]), [])
  expect(standing.blocked.map((one) => one.id)).toEqual(['a', 'd'])
  expect(standing.done.map((one) => one.id)).toEqual(['a', 'c'])
})

it('keeps the keys that were told by hand', () => {
  expect(standingOf(story([line('a', 'succeeded')], { blocked_side_effect_keys: ['key-a', 'by hand'] }), []).told).toEqual(['by hand'])
})

it('says first what would stop the agent', () => {
  const doubtful = standingOf(story([line('a', 'in_doubt')]), [{ status: 'pending' } as Approval])
  expect(nextAction(doubtful, 'mail it', 'plan')).toMatch(/tool\.a/)
  const asked = standingOf(story([]), [{ status: 'pending' } as Approval, { status: 'denied' } as Approval])
  expect(nextAction(asked, 'mail it', 'plan')).toMatch(/the open approval/)
  expect(nextAction(standingOf(story([]), []), 'mail it', 'plan')).toBe('mail it')
  expect(nextAction(standingOf(story([]), []), null, 'plan')).toMatch(/plan/)
})
