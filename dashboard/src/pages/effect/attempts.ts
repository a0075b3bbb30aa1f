/** What the events about one effect tell: its milestones, its attempts, and what may come next. */

import type { Entry, Effect } from '../../api/asks'

export type Milestone = { readonly seq: number; readonly type: string; readonly at: string; readonly by: string; readonly via: string; readonly status: string; readonly attempt: number }

export type Attempt = { readonly number: number; readonly began: Milestone; readonly ended: Milestone | null; readonly late: readonly Milestone[] }

const text = (value: unknown) => (typeof value === 'string' ? value : '')

/** Reads an event's clear part; what is not as expected is empty. */
export function milestoneOf(entry: Entry): Milestone {
  const body = entry.body as { at?: unknown; actor?: { id?: unknown; via?: unknown }; status?: unknown; attempt?: unknown }
  return {
    seq: entry.seq,
    type: entry.type,
    at: text(body.at),
    by: text(body.actor?.id),
    via: text(body.actor?.via),
    status: text(body.status),
    attempt: typeof body.attempt === 'number' ? body.attempt : 0,
  }
}

/** Gives each entry into the handler, and how it ended. */
export function attemptsIn(milestones: readonly Milestone[]): Attempt[] {
  const found: { number: number; began: Milestone; ended: Milestone | null; late: Milestone[] }[] = []
  for (const one of milestones) {
    if (one.type === 'tool_call_started') found.push({ number: one.attempt, began: one, ended: null, late: [] })
    else if (one.type === 'tool_call_late') (found.find((attempt) => attempt.number === one.attempt) ?? found.at(-1))?.late.push(one)
    else {
      const open = found.at(-1)
      if (open && !open.ended && /^tool_call_/.test(one.type)) open.ended = one
    }
  }
  return found
}

/** Says what moves an effect on from where it is; null where nothing does any more. */
export function nextOf(effect: Pick<Effect, 'status' | 'lease_until'>): string | null {
  switch (effect.status) {
    case 'requires_approval':
      return 'a person decides'
    case 'ready':
      return 'the next call enters it'
    case 'processing':
      return 'its worker reports'
    case 'in_doubt':
      return 'somebody finds out and settles it'
    default:
      return null
  }
}
