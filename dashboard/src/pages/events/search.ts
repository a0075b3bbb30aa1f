/** What can be chosen on the page of events, and the filter that it comes to. */

import { textIn } from '../runs/search'

export const KINDS = ['calls', 'in doubt', 'approvals', 'runs', 'checkpoints', 'policy'] as const
export type Kind = (typeof KINDS)[number]
export const SIDES = ['read', 'write', 'external_mutation', 'payment', 'notification', 'delegation'] as const
export type Side = (typeof SIDES)[number]
export type EventsSearch = { q?: string; kinds?: Kind[]; sides?: Side[] }

const TYPES: Readonly<Record<Kind, string>> = {
  calls: 'tool_call_*',
  'in doubt': 'tool_call_in_doubt',
  approvals: 'approval_*',
  runs: 'run_*',
  checkpoints: 'checkpoint_sealed',
  policy: 'policy_*',
}

export function eventsSearch(search: Record<string, unknown>): EventsSearch {
  const [kinds, sides] = [among(search.kinds, KINDS), among(search.sides, SIDES)]
  return { ...textIn(search, 'q'), ...(kinds.length > 0 && { kinds }), ...(sides.length > 0 && { sides }) }
}

function among<Name extends string>(value: unknown, known: readonly Name[]): Name[] {
  return Array.isArray(value) ? known.filter((name) => value.includes(name)) : []
}

/** Gives the one filter that the box and the chips come to. */
export function filterOf({ q = '', kinds = [], sides = [] }: EventsSearch): string {
  const types = kinds.map((kind) => TYPES[kind]).join(',')
  return [q.trim(), types && `type:${types}`, sides.length > 0 && `side_effect:${sides.join(',')}`].filter(Boolean).join(' ')
}

/** Adds a name to a choice, or takes it out. */
export function toggled<Name>(names: readonly Name[], name: Name): Name[] {
  return names.includes(name) ? names.filter((one) => one !== name) : [...names, name]
}
