import { describe, expect, it } from 'vitest'
import type { Approval } from '../../api/asks'
import { gathered, nextAfter, whatChanged, whyNotMine } from './deciding'

const vote = (by: string, is_approval = true) => ({ by, is_approval, via: 'link', at: '2026-01-01T00:00:00Z', on_behalf_of: null }) as Approval['votes'][number]
const asked = (part: Partial<Approval> = {}) =>
  ({ needs: [{ count: 2, role: null }], lacking: 2, votes: [], requester: { id: 'bot' }, principal: null, digest: 'd', status: 'pending', edited_by: null, ...part }) as unknown as Approval

it('counts who has approved where more than one has to', () => {
  expect(gathered(asked({ lacking: 1 }))).toBe('1 of 2 approved')
  expect(gathered(asked({ needs: [{ count: 1, role: null }], lacking: 1 }))).toBeNull()
})

it('knows whose decision it is not', () => {
  expect(whyNotMine(asked(), 'ana', true)).toBeNull()
  expect(whyNotMine(asked({ votes: [vote('ana')] }), 'ana', true)).toContain('You have approved')
  expect(whyNotMine(asked({ votes: [vote('bob')] }), 'ana', true)).toBeNull()
  expect(whyNotMine(asked({ principal: 'ana' }), 'ana', true)).toContain('yourself')
  expect(whyNotMine(asked(), 'ana', false)).toContain('scope')
})

it('tells changed arguments from a decision, and that from one more vote', () => {
  const read = asked()
  expect(whatChanged(read, asked({ digest: 'e', edited_by: 'bob' })).title).toBe('The arguments were changed by bob while you read them')
  expect(whatChanged(read, asked({ status: 'denied', votes: [vote('bob', false)] })).title).toBe('It was already denied by bob')
  expect(whatChanged(read, asked({ votes: [vote('bob')] })).detail).toContain('decide again')
})

describe('what is shown after a decision', () => {
  it('is what takes the place, also when the decided one has left the list already', () => {
    expect(nextAfter(['third', 'second', 'first'], 'second', 1)).toBe('first')
    expect(nextAfter(['third', 'first'], 'second', 1)).toBe('first')
  })
  it('is the last one when the last one was decided, and nothing when nothing is left', () => {
    expect(nextAfter(['third', 'second'], 'first', 2)).toBe('second')
    expect(nextAfter(['first'], 'first', 0)).toBeUndefined()
    expect(nextAfter([], 'first', 0)).toBeUndefined()
  })
})
