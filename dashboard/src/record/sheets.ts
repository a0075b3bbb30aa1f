/** Reads what events commit to, exactly: approvals, grants, people, runs, checkpoints, verdicts (docs/reference/permissions.md). */

import { Caught, strictBase64, utf8, type Bytes } from './bytes'
import { isObject } from './bodies'
import { INSTANT, isTagged } from './canonical'
import { isName, samePerson } from './names'
import rules from './rules.json'

export type Shape = string | { readonly any: readonly Shape[] } | { readonly is: unknown } | { readonly list: Shape } | { readonly members: Readonly<Record<string, Shape>> }
export type Named = { readonly key: string | null; readonly name: string; readonly roles: readonly string[] }
export type Vote = {
  readonly at: string
  readonly by: string
  readonly credential: string | null
  readonly delegated_with: string | null
  readonly is_approval: boolean
  readonly is_by_editor: boolean
  readonly on_behalf_of: string | null
  readonly signature: string | null
  readonly via: string
}
export type Question = {
  readonly escalations: readonly { readonly after: number; readonly people: readonly Named[] }[]
  readonly expires: number
  readonly is_sole_approver: boolean
  readonly may_edit: boolean
  readonly needs: readonly { readonly count: number; readonly role: string | null }[]
  readonly needs_signature: boolean
  readonly people: readonly Named[] | null
  readonly rule: string
}
export type Actor = { readonly id: string; readonly kind: string; readonly via: string }
export type Approval = {
  readonly args_seq: number
  readonly asked_at: string
  readonly attempt: number | null
  readonly digest: string
  readonly editors: readonly string[]
  readonly effect: string
  readonly escalated: number
  readonly expires_at: string
  readonly for_run: string
  readonly grant: string | null
  readonly id: string
  readonly place: readonly string[]
  readonly policy: string
  readonly principal: string | null
  readonly question: Question
  readonly replaces: string | null
  readonly requester: Actor
  readonly run: string
  readonly schema: string
  readonly side_effect: string
  readonly status: string
  readonly taken_back: readonly string[]
  readonly tool: string
  readonly version: number
  readonly votes: readonly Vote[]
}
export type Grant = {
  readonly approval: string
  readonly before: readonly unknown[] | null
  readonly credential: string | null
  readonly delegated_with: string | null
  readonly given_by: string
  readonly id: string
  readonly is_ended: boolean
  readonly on_behalf_of: string | null
  readonly pin: readonly string[] | null
  readonly pinned: string
  readonly policy: string
  readonly rule: string
  readonly schema: string
  readonly tool: string
  readonly uses_left: number
  readonly version: number
}
export type Delegation = { readonly credential: string | null; readonly giver: string; readonly id: string; readonly is_ended: boolean; readonly to: string }
export type Standing = { readonly id: string; readonly is_revoked: boolean }
export type Stop = { readonly is_in_force: boolean }
export type Verdict = { readonly decision: string; readonly policy: string }
export type Checkpoint = { readonly at: number; readonly created_at: string; readonly has_state: boolean; readonly reason: string; readonly run: string }
export type Run = { readonly created_at: string; readonly handover?: { readonly to: string; readonly until: string }; readonly parent: string | null; readonly parent_event: string | null; readonly status: string; readonly updated_at: string }

const SHAPES = rules.sheets as unknown as Readonly<Record<string, Shape>>
const MOST_NEEDED = 100
const KINDS = ['agent', 'person', 'system']
const VIAS = ['process', 'api_key', 'passkey', 'signature', 'link', 'oidc']
const AMOUNT = /^-?[0-9]+(?:\.[0-9]+)?(?:E[+-][0-9]+)?$/

/** Says whether a value has a shape: a kind, a value, or, made of shapes, a choice, a list or an object. */
export function fits(value: unknown, shape: Shape): boolean {
  if (shape === 'text') return typeof value === 'string'
  if (shape === 'time') return typeof value === 'string' && INSTANT.test(value)
  if (shape === 'base64') return isBase64(value)
  if (shape === 'number') return Number.isSafeInteger(value)
  if (shape === 'truth') return typeof value === 'boolean'
  if (typeof shape === 'string') return isObject(value) && !isTagged(value)
  if ('any' in shape) return shape.any.some((one) => fits(value, one))
  if ('list' in shape) return Array.isArray(value) && value.every((one) => fits(one, shape.list))
  if ('is' in shape) return value === shape.is
  const names = Object.keys(shape.members)
  return isObject(value) && Object.keys(value).length === names.length && names.every((name) => Object.hasOwn(value, name) && fits(value[name], shape.members[name]!))
}

function isBase64(value: unknown): boolean {
  try {
    strictBase64(value, '')
    return true
  } catch {
    return false
  }
}

function read<Found>(kind: string, value: Bytes, isGood: (found: Found) => boolean = () => true): Found {
  const content: unknown = JSON.parse(new TextDecoder().decode(value)) // it is known to be canonical
  if (!fits(content, SHAPES[kind]!) || !isGood(content as Found)) throw new Caught(`its ${kind} is none of version 1: a member is unknown, missing, or cannot be`)
  return content as Found
}

export const readApproval = (value: Bytes) => read<Approval>('approval', value, isApproval)
export const readGrant = (value: Bytes) => read<Grant>('grant', value, ({ before }) => before === null || before.length === 2)
export const readDelegation = (value: Bytes) => read<Delegation>('delegation', value, ({ giver, to }) => !samePerson(giver, to))
export const readStop = (value: Bytes) => read<Stop>('stop', value)
export const readVerdict = (value: Bytes) => read<Verdict>('verdict', value)
export const readPolicy = (value: Bytes) => read<{ readonly version: string }>('policy', value)
export const readCheckpoint = (value: Bytes) => read<Checkpoint>('checkpoint', value)
export const readProvider = (value: Bytes) => read<{ readonly max_age: number }>('provider', value, ({ max_age }) => max_age > 0 && max_age <= rules.longest_max_age)
export const readPerson = (value: Bytes) => read<Standing & { readonly name: string; readonly scopes: readonly string[] }>('person', value, ({ name, scopes }) => isName(name) && areScopes(scopes, rules.scopes_of_people))

export const readCredential = (value: Bytes) =>
  read<Standing & { readonly kind: string; readonly name: string; readonly principal: string | null; readonly scopes: readonly string[] }>('credential', value, ({ kind, name, principal, scopes }) => {
    const isApart = kind === 'agent' ? scopes.every((one) => one === 'agent') : kind !== 'person' || !scopes.includes('agent')
    return isName(name) && (principal === null || isName(principal)) && areScopes(scopes, rules.scopes) && isApart
  })

export const readRun = (value: Bytes) =>
  read<Run & { readonly checkpointing: { readonly every: number | null; readonly every_progress: number | null } }>('run', value, ({ checkpointing: { every, every_progress } }) => (every ?? 1) > 0 && (every_progress ?? 1) > 0)

/** Gives the reservations that charges tell of, as budget and number; throws `Caught` unless they are charges. */
export function readReservations(value: Bytes): readonly (readonly [string, number])[] {
  const content: unknown = JSON.parse(new TextDecoder().decode(value))
  const isCharge = (one: unknown) => Array.isArray(one) && (one.length === 4 || one.length === 5) && typeof one[0] === 'string' && one.slice(1, 3).every((text) => typeof text === 'string' && AMOUNT.test(text)) && one.slice(3).every(Number.isSafeInteger) && one.at(-1) > 0
  if (!Array.isArray(content) || !content.every(isCharge)) throw new Caught('its charges are none: each has a name, an amount, a limit, a window, and maybe a number')
  return content.filter((one: unknown[]) => one.length === 5).map((one: unknown[]) => [one[0] as string, one[4] as number] as const)
}

const areScopes = (scopes: readonly string[], known: readonly string[]) => scopes.length > 0 && scopes.every((one) => known.includes(one))

function isApproval({ asked_at, digest, place, question, requester }: Approval): boolean {
  const isAsked = isName(requester.id) && KINDS.includes(requester.kind) && VIAS.includes(requester.via)
  return isAsked && place.length === 3 && /^[0-9a-f]{64}$/.test(digest) && isQuestion(question) && later(asked_at, question.expires) !== null
}

function isQuestion({ escalations, expires, needs, people }: Question): boolean {
  const isNeeded = needs.length > 0 && needs.every((need) => need.count >= 1) && needs.reduce((sum, need) => sum + need.count, 0) <= MOST_NEEDED
  const times = escalations.map((step) => step.after)
  const areLater = times.every((after, step) => after > 0 && after >= (times[step - 1] ?? 0))
  return isNeeded && expires > 0 && areLater && [people ?? [], ...escalations.map((step) => step.people)].every(areInOrder)
}

/** People stand in the order of their names, by code points, each once. */
function areInOrder(people: readonly Named[]): boolean {
  return people.every((one, at) => at === 0 || isBefore(utf8(people[at - 1]!.name), utf8(one.name)))
}

function isBefore(one: Bytes, other: Bytes): boolean {
  const at = one.findIndex((byte, index) => byte !== other[index])
  return at < 0 ? one.length < other.length : at < other.length && one[at]! < other[at]!
}

const DAY = 86_400_000_000

/** Returns the moment so many microseconds after another, as events write it; null when no calendar has it. */
export function later(at: string, microseconds: number): string | null {
  const midnight = Date.UTC(2000, Number(at.slice(5, 7)) - 1, Number(at.slice(8, 10))) // years below 100 mean others there
  const start = new Date(midnight).setUTCFullYear(Number(at.slice(0, 4)), Number(at.slice(5, 7)) - 1, Number(at.slice(8, 10)))
  const [hours, minutes, seconds] = [at.slice(11, 13), at.slice(14, 16), at.slice(17, 19)].map(Number)
  const within = BigInt(((hours! * 60 + minutes!) * 60 + seconds!) * 1_000_000 + Number(at.slice(20, 26))) + BigInt(microseconds)
  const days = Number(within / BigInt(DAY))
  const rest = Number(within % BigInt(DAY))
  const day = new Date(start + days * 86_400_000)
  if (Number.isNaN(day.getTime()) || day.getUTCFullYear() > 9999) return null
  const pad = (number: number, width: number) => String(Math.floor(number)).padStart(width, '0')
  const date = `${pad(day.getUTCFullYear(), 4)}-${pad(day.getUTCMonth() + 1, 2)}-${pad(day.getUTCDate(), 2)}`
  return `${date}T${pad(rest / 3_600_000_000, 2)}:${pad((rest / 60_000_000) % 60, 2)}:${pad((rest / 1_000_000) % 60, 2)}.${pad(rest % 1_000_000, 6)}Z`
}
