import { describe, expect, it } from 'vitest'
import type { Approval } from '../../api/asks'
import { gathered, neighbour, whatChanged, whyNotMine } from './deciding'

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

describe('where j and k lead', () => {
  const ids = ['third', 'second', 'first']
  it('is the next one and the one before, and no further than the ends', () => {
    expect(neighbour(ids, 'second', 1, 1)).toBe('first')
    expect(neighbour(ids, 'second', 1, -1)).toBe('third')
    expect(neighbour(ids, 'first', 2, 1)).toBe('first')
    expect(neighbour(ids, 'third', 0, -1)).toBe('third')
  })
  it('is the first one when nothing is open, and nothing when nothing is there', () => {
    expect(neighbour(ids, undefined, 0, 1)).toBe('third')
    expect(neighbour(ids, undefined, 0, -1)).toBe('third')
    expect(neighbour([], undefined, 0, 1)).toBeUndefined()
  })
  it('is what took the place of a decided one that has left the list, or what was before it', () => {
    expect(neighbour(['third', 'first'], 'second', 1, 1)).toBe('first')
    expect(neighbour(['third', 'first'], 'second', 1, -1)).toBe('third')
    expect(neighbour(['third', 'second'], 'first', 2, 1)).toBe('second')
  })
})
