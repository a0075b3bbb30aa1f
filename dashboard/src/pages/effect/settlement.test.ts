import { expect, it } from 'vitest'
import { outcomeOf, type Told } from './settlement'

const told = (more: Partial<Told>): Told => ({ became: 'succeeded', value: '', error: '', evidence: 'seen at the provider', ...more })

it('takes a result as JSON, and none as null', () => {
  expect(outcomeOf(told({ value: '{"id": "ch_1"}' }))).toEqual({ outcome: { status: 'succeeded', value: { id: 'ch_1' } }, evidence: 'seen at the provider' })
  expect(outcomeOf(told({}))).toMatchObject({ outcome: { value: null } })
})
it('says what is missing', () => {
  expect(outcomeOf(told({ became: null }))).toEqual({ lacks: 'Say what became of it.' })
  expect(outcomeOf(told({ value: 'ch_1' }))).toEqual({ lacks: expect.stringMatching(/quotes/) as string })
  expect(outcomeOf(told({ evidence: '  ' }))).toEqual({ lacks: 'Say how you know.' })
  expect(outcomeOf(told({ became: 'failed' }))).toEqual({ lacks: 'Say what went wrong.' })
  expect(outcomeOf(told({ became: 'failed', error: 'declined' }))).toMatchObject({ outcome: { status: 'failed', error: 'declined' } })
})
