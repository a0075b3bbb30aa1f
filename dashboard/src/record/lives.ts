/** The lives of effects as a journal tells them: every run dense and chained, every move one that the rules allow. */

import { Caught } from './bytes'
import { isEffect, type Body, type EffectBody } from './bodies'
import rules from './rules.json'

type Move = { readonly always: readonly string[]; readonly sometimes: readonly string[]; readonly adds?: number; readonly only_retry?: boolean; readonly only_harmless?: boolean }
type End = { readonly seq: number; readonly hash: string; readonly gaps: number }
/** How an effect stood before an event that says something of a permission: its status, and the question about it. */
export type Before = { readonly status: string; readonly question: string }
type Life = { readonly body: EffectBody; readonly status: string; readonly attempt: number; readonly gaps: number }

const MOVES = rules.moves as unknown as Readonly<Record<string, Move>>
const QUESTIONS = rules.questions as unknown as Readonly<Record<string, readonly [readonly string[], string]>>
const OPEN = ['pending', 'approved']
const ENDS = ['succeeded', 'denied', 'canceled'] // what follows these moves nothing, and is not compared with what was
export const NOT_ASKED = ''
export const UNKNOWN = '?'
const ABOUT_PERMISSION = ['approval', 'grant', 'policy']
const NOTHING = '0'.repeat(64)
const PLACES = Object.keys(MOVES).map((place) => place.split('|') as [string, string, string])
const STATUSES = new Set(PLACES.map(([, , after]) => after))
const WORDS = new Set([...PLACES.map(([, type, after]) => `${type}|${after}`), ...[...STATUSES].map((status) => `${rules.late}|${status}`)])
const OPENINGS = PLACES.filter(([before]) => before === '').map((place) => MOVES[place.join('|')]!)

const namesIn = (body: Body) => Object.keys(body.commits).sort()

/** Says whether an event of this move may commit to these values; of approval and grant, where either may be, only to one. */
function mayCommit({ always, sometimes }: Move, names: readonly string[]): boolean {
  const more = names.filter((name) => !always.includes(name))
  const isKnown = more.every((name) => sometimes.includes(name)) && !(more.includes('approval') && more.includes('grant'))
  return isKnown && always.every((name) => names.includes(name))
}

/** Follows events in the order of the journal; throws `Caught` at the first that the rules do not allow. */
export class Lives {
  readonly runs = new Map<string, End>()
  readonly #effects = new Map<string, Life>()
  readonly #questions = new Map<string, string>()

  /** `isWhole` says that every event from the beginning of each run is shown; else a run may have gaps. */
  constructor(
    readonly log: string,
    readonly isWhole: boolean,
  ) {}

  /** Checks one event against everything before it; gives how many gaps its run has, and how its effect stood if it tells of a permission. */
  follow(body: Body, hash: string): { readonly gaps: number; readonly before: Before | null } {
    const gaps = this.#chain(body, hash)
    if (isEffect(body)) return { gaps, before: this.#move(body, gaps) }
    if (rules.effect_types.includes(body.type) || 'approval' in body.commits) throw new Caught(`${body.type} names its effect, and this one does not`)
    return { gaps, before: null }
  }

  #chain({ log, run, seq, prev }: Body, hash: string): number {
    const end = this.runs.get(run) ?? { seq: this.isWhole || seq === 0 ? 0 : -1, hash: NOTHING, gaps: 0 }
    let { gaps } = end
    if (log !== this.log) throw new Caught(`it belongs to another journal: ${log}`)
    if (seq !== end.seq) {
      if (this.isWhole || seq < end.seq) throw new Caught(`an event of its run is missing or comes twice: number ${end.seq} was expected, not ${seq}`)
      if (end.seq >= 0) gaps += 1
    } else if (prev !== end.hash) throw new Caught('it does not follow the event before it in its run, of which it names the hash')
    this.runs.set(run, { seq: seq + 1, hash, gaps })
    return gaps
  }

  #move(body: EffectBody, gaps: number): Before | null {
    const { effect, type, status, attempt } = body
    const names = namesIn(body)
    const life = this.#effects.get(effect) ?? { body, status: '', attempt: 0, gaps }
    const isKnown = this.isWhole || (life.status !== '' && life.gaps === gaps) || OPENINGS.some((move) => mayCommit(move, names))
    if (isKnown) checkMove(life, body, names)
    else if (!WORDS.has(`${type}|${status}`) || (names.includes('approval') && !(type in QUESTIONS))) throw new Caught(`no ${type} leads to ${status}`)
    else this.#questions.set(effect, UNKNOWN)
    const isAbout = this.#questions.has(effect) || names.some((name) => ABOUT_PERMISSION.includes(name))
    const question = this.#questions.get(effect) ?? NOT_ASKED
    const after = nextQuestion(question, type, names, life.status)
    if (after === null) throw new Caught(`${type} does not fit the approval of its effect`)
    if (after !== NOT_ASKED) this.#questions.set(effect, after)
    for (const name of ['run', 'tool', 'side_effect', 'on_crash'] as const) {
      if (!ENDS.includes(life.status) && life.body[name] !== body[name]) throw new Caught(`its effect changed its ${name}`)
    }
    this.#effects.set(effect, { body: life.body, status, attempt, gaps })
    return isAbout ? { status: life.status, question } : null
  }
}

function checkMove(life: Life, { type, status, attempt, on_crash, side_effect }: EffectBody, names: readonly string[]): void {
  const move = MOVES[`${life.status}|${type}|${status}`]
  if (!move) return checkLate(life, type, status, attempt, names)
  if (!mayCommit(move, names)) throw new Caught(`${type} does not commit to (${names.join(', ')})`)
  if (attempt !== life.attempt + (move.adds ?? 0) && type !== rules.adopted) throw new Caught(`its attempt is wrong: ${attempt}`)
  if (move.only_retry && on_crash === 'hold' && !names.includes(rules.again)) throw new Caught(`the effect was entered again while ${life.status}, though its tool holds when in doubt`)
  if (move.only_harmless && !rules.harmless.includes(side_effect)) throw new Caught(`a person was asked about an effect that is ${life.status}: it may have happened`)
}

function checkLate(life: Life, type: string, status: string, attempt: number, names: readonly string[]): void {
  if (type !== rules.late || status !== life.status) throw new Caught(`no ${type} leads from ${life.status || 'nothing'} to ${status}`)
  const isLate = rules.late_names.includes(names.join()) && attempt === life.attempt && attempt >= (status === 'processing' ? 2 : 1)
  if (!isLate) throw new Caught('a late report changes nothing and commits to what came late')
}

/** Says how the question about an effect stands after a legal move; null when the question does not allow it. */
function nextQuestion(question: string, type: string, names: readonly string[], status: string): string | null {
  if (names.includes('approval')) {
    if (type === 'tool_call_started' && question === 'used' && status !== 'ready') return 'used'
    const [befores, after] = QUESTIONS[type]!
    return befores.includes(question) || question === UNKNOWN ? after : null
  }
  if (question === UNKNOWN) return UNKNOWN
  if (type === 'tool_call_started') {
    if (names.includes('grant') && !OPEN.includes(question)) return 'over'
    return question === NOT_ASKED ? NOT_ASKED : null
  }
  if (type === 'tool_call_canceled') return OPEN.includes(question) ? null : question
  return type === 'approval_viewed' && question === NOT_ASKED ? null : question
}
