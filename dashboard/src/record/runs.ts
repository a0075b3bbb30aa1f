/** The lives of runs as a journal tells them: begun, driven by one after the other, saved, and over when over. */

import { Caught, type Bytes } from './bytes'
import { type FactBody } from './bodies'
import { canonical } from './canonical'
import rules from './rules.json'
import { fits, readCheckpoint, readRun, type Shape } from './sheets'

type Form = { readonly commits: readonly string[]; readonly facts: Readonly<Record<string, Shape>> }
type Course = { status: string; gaps: number; fence: number; lostAt: number | null; checkpoints: Set<unknown> | null; neverChanging: string | null }

const FORMS = rules.run_forms as unknown as Readonly<Record<string, Form>>
const MOVES: Readonly<Record<string, string>> = rules.run_moves
const STATUS_AFTER: Readonly<Record<string, string>> = rules.run_status_after
const BY_HAND = ''
const UNKNOWN = '?'
const INTERRUPTED = 'interruption_detected'

const isByTheLedger = ({ type, facts }: FactBody) => type !== BY_HAND && type in FORMS && (type !== INTERRUPTED || 'fence' in facts)
const isByHand = ({ type, facts }: FactBody) => !(type === 'policy_checked' && 'decision' in facts) && (rules.types_by_hand.includes(type) || type.includes('.'))

/** Follows what is told of runs, each in its order; throws `Caught` at the first that the rules do not allow. */
export class RunLives {
  readonly #courses = new Map<string, Course>()

  constructor(readonly isWhole: boolean) {}

  /** Takes in an event about no effect; `gaps` counts where its run was not shown, up to here. */
  take(fact: FactBody, gaps: number, shown: ReadonlyMap<string, Bytes>): void {
    const isMove = isByTheLedger(fact)
    if (!isMove && !isByHand(fact)) {
      if ('run' in fact.commits || 'checkpoint' in fact.commits) throw new Caught(`${fact.type} tells of no run, and commits to one or to a checkpoint`)
      return
    }
    checkForm(fact, isMove)
    const course = this.#course(fact, gaps)
    if (course.lostAt !== null && (fact.type !== 'run_resumed' || fact.seq !== course.lostAt + 1)) throw new Caught('the run lost its driver, and the next event does not tell who took it over')
    course.lostAt = null
    if (isMove) move(course, fact, shown)
    else if (!rules.may_be_told.includes(course.status)) throw new Caught(`something is told of a run that is ${course.status}: nothing can be added to it`)
  }

  #course({ run, seq, type }: FactBody, gaps: number): Course {
    const known = this.#courses.get(run)
    if (known) {
      if (known.gaps !== gaps) Object.assign(known, { status: UNKNOWN, gaps, lostAt: null, checkpoints: null })
      return known
    }
    const course: Course = { status: this.isWhole || seq === 0 ? '' : UNKNOWN, gaps, fence: 0, lostAt: null, checkpoints: null, neverChanging: null }
    if (!this.isWhole || type === 'run_started') this.#courses.set(run, course)
    return course
  }
}

function checkForm(fact: FactBody, isMove: boolean): void {
  const form = FORMS[isMove ? fact.type : BY_HAND]!
  const shapes: Readonly<Record<string, Shape>> = !isMove && 'said_by' in fact.facts ? { ...form.facts, said_by: 'text' } : form.facts
  const isExact = Object.keys(fact.facts).sort().join() === Object.keys(shapes).sort().join()
  if (!isExact || !Object.entries(shapes).every(([name, shape]) => fits(fact.facts[name], shape))) throw new Caught(`${fact.type} says ${Object.keys(shapes).join(', ') || 'nothing'} in clear, each in its own way`)
  const names = Object.keys(fact.commits).sort()
  if (!form.commits.includes(names.join())) throw new Caught(`${fact.type} does not commit to (${names.join(', ')})`)
  if (fact.facts.status === 'skipped' && !names.includes('side_effect_key')) throw new Caught(`${fact.type} was skipped, and names no side effect that was told before`)
}

function move(course: Course, fact: FactBody, shown: ReadonlyMap<string, Bytes>): void {
  const { type, facts, seq } = fact
  const after = course.status === UNKNOWN ? (STATUS_AFTER[type] ?? UNKNOWN) : MOVES[`${course.status}|${type}`]
  if (after === undefined) throw new Caught(`no ${type} follows in a run that is ${course.status || 'not started'}`)
  if ('fence' in facts) checkFence(course, type, facts.fence as number, seq)
  if (type === 'checkpoint_sealed') {
    const at = facts.at as number
    if (at < 0 || at >= seq) throw new Caught('its checkpoint is of no earlier event')
    if (course.checkpoints?.has(facts.checkpoint)) throw new Caught('it was sealed before')
    course.checkpoints?.add(facts.checkpoint)
    checkCheckpoint(fact, shown.get('checkpoint'))
  } else if (type === 'run_resumed' && facts.checkpoint !== null && course.checkpoints?.has(facts.checkpoint) === false) throw new Caught('it resumes from no checkpoint of this run')
  else if (type === 'run_started') course.checkpoints = new Set()
  course.status = after
  checkRun(course, fact, shown.get('run'))
  if (rules.over.includes(after)) course.checkpoints = null
}

/** Each driver has a higher number than all before, and the one that was lost is the newest. */
function checkFence(course: Course, type: string, fence: number, seq: number): void {
  if (type === INTERRUPTED) {
    if (course.fence !== 0 && course.fence !== fence) throw new Caught('it tells of another driver than the newest')
    course.lostAt = seq
  } else if (fence <= course.fence) throw new Caught("its driver's number is not higher than those before")
  course.fence = fence
}

/** A checkpoint that is shown is what its event says of it. */
function checkCheckpoint({ at, commits, facts, run }: FactBody, value: Bytes | undefined): void {
  if (value === undefined) return
  const found = readCheckpoint(value)
  const isTold = found.run === run && found.at === facts.at && found.reason === facts.reason && found.created_at === at
  if (!isTold || found.has_state !== 'state' in commits) throw new Caught('its checkpoint is another than it tells')
}

/** A run that is shown is what its event says, and what it was, but for how it stands. */
function checkRun(course: Course, { type, at, facts }: FactBody, value: Bytes | undefined): void {
  if (value === undefined) return
  const { status, updated_at, handover, ...kept } = readRun(value)
  if (status !== course.status || updated_at !== at) throw new Caught('its run stands otherwise than it tells')
  if (type === 'run_started' && (kept.created_at !== at || kept.parent !== facts.parent || kept.parent_event !== facts.parent_event)) throw new Caught('its run began otherwise than it tells')
  if (type === 'run_handed_over' && (handover?.to !== facts.to || handover?.until !== facts.until)) throw new Caught('its run was handed over to another ledger than it tells')
  const text = canonical(kept)
  if (course.neverChanging !== null && course.neverChanging !== text) throw new Caught('its run is another one than before: only how a run stands changes')
  course.neverChanging = text
}
