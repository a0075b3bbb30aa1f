// @vitest-environment jsdom
import { expect, it } from 'vitest'
import { staleAfter } from './live'

const names = (type: string, effect_id: string | null = null) => staleAfter({ type, run_id: 'r', effect_id }).map((key) => key.join('/'))

it('asks again about the run and the effect that an event is about, and about no others', () => {
  expect(names('tool_call_finished', 'eff_1')).toEqual(['runs/r', 'stories/r', 'journal', 'effects/eff_1', 'approvals'])
  expect(names('plan_locked')).toEqual(['runs/r', 'stories/r', 'journal'])
})
it('asks again about approvals and the policy when those change', () => {
  expect(names('approval_voted', 'eff_1')).toContain('approvals')
  expect(names('policy_applied')).toContain('policy')
})
