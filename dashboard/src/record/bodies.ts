/** Reads event bodies exactly: a body is accepted if and only if it is the one text that its content has. */

import { Caught, textOf, type Bytes } from './bytes'
import { INSTANT, MOST_DEEP, readCanonical } from './canonical'
import rules from './rules.json'

export type Shared = {
  readonly actor: { readonly id: string; readonly kind: string; readonly via: string }
  readonly at: string
  readonly commits: Readonly<Record<string, string>>
  readonly log: string
  readonly prev: string
  readonly run: string
  readonly seq: number
  readonly type: string
  readonly writer: string
}
export type EffectBody = Shared & {
  readonly attempt: number
  readonly effect: string
  readonly on_crash: string
  readonly side_effect: string
  readonly status: string
  readonly tool: string
}
export type FactBody = Shared & { readonly facts: Readonly<Record<string, unknown>> }
export type Body = EffectBody | FactBody

const SHARED = ['actor', 'at', 'commits', 'log', 'prev', 'run', 'seq', 'type', 'v', 'writer']
const FACT = [...SHARED, 'facts'].sort().join()
const EFFECT = [...SHARED, 'attempt', 'effect', 'on_crash', 'side_effect', 'status', 'tool'].sort().join()

export function isEffect(body: Body): body is EffectBody {
  return 'effect' in body
}

/** Reads a body; throws `Caught` for anything that is not exactly an event of version 1. */
export function readBody(entry: Bytes): Body {
  const text = textOf(entry)
  const content = text === null ? null : readCanonical(text)?.value
  const members = isObject(content) ? Object.keys(content).sort().join() : ''
  const isFact = members === FACT
  const isKnown = isObject(content) && (isFact || members === EFFECT) && isShared(content) && (isFact ? isObject(content.facts) && isClear(content.facts, MOST_DEEP) && isPlain(content.facts) : isAboutEffect(content))
  if (!isKnown) throw new Caught('it is no event of version 1: a member is unknown, missing, or not written canonically')
  return content as unknown as Body
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whole numbers below 2^53 only: no two readers may understand one differently. */
function isPlain(value: unknown): boolean {
  if (typeof value === 'number') return Number.isSafeInteger(value)
  if (typeof value !== 'object' || value === null) return true
  return Object.values(value).every(isPlain)
}

/** No name begins as tags do, which stand for what JSON cannot say, and nothing is nested too deep. */
function isClear(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (levels === 0 || (isObject(value) && Object.keys(value).some((name) => name.startsWith('$')))) return false
  return Object.values(value).every((part) => isClear(part, levels - 1))
}

const isText = (value: unknown, form: RegExp): value is string => typeof value === 'string' && form.test(value)
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0

function isShared({ actor, at, commits, log, prev, run, seq, type, v, writer }: Record<string, unknown>): boolean {
  const isActor = isObject(actor) && Object.keys(actor).sort().join() === 'id,kind,via' && typeof actor.id === 'string'
  const isKnown = isActor && isText(actor.kind, /^(?:agent|person|system)$/) && isText(actor.via, /^(?:process|api_key|passkey|signature|link|oidc)$/)
  const isCommitted = isObject(commits) && Object.entries(commits).every(([name, hash]) => /^[a-z_]+$/.test(name) && isText(hash, /^[0-9a-f]{64}$/))
  const areTexts = typeof log === 'string' && typeof run === 'string' && typeof type === 'string'
  return isKnown && isCommitted && areTexts && v === 1 && isCount(seq) && isText(at, INSTANT) && isText(prev, /^[0-9a-f]{64}$/) && isText(writer, /^[0-9a-f]{32}$/)
}

function isAboutEffect({ attempt, effect, on_crash, side_effect, status, tool, type }: Record<string, unknown>): boolean {
  const areNames = isText(effect, /^[A-Za-z0-9_-]+$/) && isText(tool, /^[A-Za-z0-9_.:/-]+$/) && isText(status, /^[a-z_]+$/) && isText(type, /^[a-z_]+$/)
  return areNames && isCount(attempt) && isText(on_crash, /^(?:retry|hold|resend)$/) && rules.side_effects.includes(side_effect as string)
}
