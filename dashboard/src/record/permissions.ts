/** The permissions that calls ran on, as a journal tells them: verdicts, approvals, grants, delegations (docs/reference/permissions.md). */

import { Caught, textOf, toHex, type Bytes } from './bytes'
import { isObject, type EffectBody, type FactBody } from './bodies'
import { canonical, isTagged } from './canonical'
import { hashed } from './identity'
import { NOT_ASKED, UNKNOWN, type Before } from './lives'
import { isName, samePerson } from './names'
import rules from './rules.json'
import { later, readApproval, readCredential, readDelegation, readGrant, readPerson, readPolicy, readProvider, readReservations, readStop, readVerdict, type Approval, type Delegation, type Grant, type Vote } from './sheets'
import { lacking, voted } from './votes'

type Values = ReadonlyMap<string, Bytes>
type Place = readonly [run: string, seq: number]
type Asked = { wasAsked: boolean; approval: Approval | null; args: Bytes | null; argsSeq: number | null; key: string | null }
type Kept = { readonly grant: Grant; readonly place: Place }

const STATUS_AFTER: Readonly<Record<string, string>> = rules.approval_after
const FACTS_OF_SHEETS: Readonly<Record<string, string>> = rules.facts_of_sheets
const VOTES = ['approval_voted', 'approval_received', 'approval_denied']
const JUDGED = ['approval_requested', 'approval_edited', 'tool_call_started']
const LAST = ['succeeded', 'denied', 'canceled']
const ENCRYPTED = '{"$encrypted":'

const isSame = (one: unknown, other: unknown) => canonical(one) === canonical(other)
const isOver = ({ is_ended, uses_left }: Grant) => is_ended || uses_left < 1
const tenantOf = (log: string) => unquoted(log.slice(log.indexOf('/') + 1 || log.length))
const unquoted = (text: string) => text.replace(/(?:%[0-9a-fA-F]{2})+/g, (run) => new TextDecoder().decode(Uint8Array.from(run.match(/[^%]{2}/g)!, (pair) => Number.parseInt(pair, 16))))

/** Is a set of numbers from 1 that come one after the other but for a few, in little room. */
class Numbers {
  #next = 1
  readonly #later = new Set<number>()

  /** Adds a number; says whether it was not there. */
  add(number: number): boolean {
    if (number < this.#next || this.#later.has(number)) return false
    this.#later.add(number)
    while (this.#later.delete(this.#next)) this.#next += 1
    return true
  }
}

/** Takes in what a journal tells of permissions; throws `Caught` at the first that does not hold. */
export class Permissions {
  readonly #asked = new Map<string, Asked>()
  readonly #grants = new Map<string, Map<number, Kept>>()
  readonly #delegations: Delegation[] = []
  readonly #delegated: { readonly giver: string; readonly vote: Vote }[] = []
  readonly #reserved = new Map<string, Numbers>()
  readonly #unshown = new Set<string>()

  /** `isWhole` says that every event of every run is shown. */
  constructor(readonly isWhole: boolean) {}

  /** Takes in an event about an effect that says something of a permission. */
  async take(event: EffectBody, before: Before, shown: Values): Promise<void> {
    if (!isName(event.actor.id)) throw new Caught('its actor has no name')
    const judged = shown.get('policy')
    const verdict = judged ? readVerdict(judged) : null
    if (verdict) checkVerdict(event, before, verdict.decision)
    const charges = shown.get('charges')
    for (const [budget, number] of charges ? readReservations(charges) : []) {
      const taken = this.#reserved.get(budget) ?? new Numbers()
      this.#reserved.set(budget, taken)
      if (!taken.add(number)) throw new Caught(`another event took reservation ${number} of ${budget} too: an older row was put back`)
    }
    const policy = verdict ? verdict.policy : 'policy' in event.commits ? null : ''
    const known = this.#known(event, before, shown)
    if ('approval' in event.commits) await this.#takeApproval(event, known, policy, shown.get('approval'))
    if ('grant' in event.commits) await this.#takeGrant(event, known, policy, shown.get('grant'))
    if (LAST.includes(event.status)) this.#asked.delete(event.effect)
  }

  /** Gives what is known of the question about an effect, its newest arguments included. */
  #known({ commits, effect, seq }: EffectBody, { question }: Before, shown: Values): Asked {
    let known = this.#asked.get(effect)
    if (!known || question === UNKNOWN) known = { wasAsked: question !== NOT_ASKED, approval: null, args: null, argsSeq: null, key: null }
    const key = shown.get('key')
    if (key) known.key = toHex(key)
    if ('args' in commits) Object.assign(known, { args: shown.get('args') ?? null, argsSeq: seq })
    if ('approval' in commits) this.#asked.set(effect, known)
    return known
  }

  async #takeApproval(event: EffectBody, known: Asked, policy: string | null, shown: Bytes | undefined): Promise<void> {
    const { approval: before, wasAsked } = known
    Object.assign(known, { approval: null, wasAsked: true })
    if (!shown) return
    const found = (known.approval = readApproval(shown))
    checkAbout(event, found, known.key)
    if (event.type === 'approval_requested') checkAsked(event, found, before ? before.id : wasAsked ? found.replaces : null, before ? before.editors : found.editors)
    else if (before) checkSame(await follows(event, before, found), found)
    else await recount(event, found)
    if (['approval_requested', 'approval_edited'].includes(event.type)) await checkArgs(found, known)
    if (['approved', 'consumed'].includes(found.status) && (await lacking(found)) > 0) throw new Caught(`${found.id} counts as ${found.status}, and some of the needed approvals are lacking`)
    if (JUDGED.includes(event.type) && policy !== null && policy !== found.policy) throw new Caught('its approval is bound to another policy than judged it')
    for (const vote of found.votes.slice(before ? before.votes.length : 0)) {
      if (vote.on_behalf_of !== null) this.#delegated.push({ giver: vote.on_behalf_of, vote })
    }
  }

  /** Takes in a grant that was given with an approval, or that a call used. */
  async #takeGrant(event: EffectBody, known: Asked, policy: string | null, shown: Bytes | undefined): Promise<void> {
    if (!shown) {
      this.#unshown.add('grant')
      return
    }
    const grant = readGrant(shown)
    if (event.type === 'approval_received') checkGiven(event, grant, known.approval)
    else if (policy !== null && policy !== grant.policy) throw new Caught('its grant holds for another policy')
    if (grant.tool !== event.tool) throw new Caught('its grant is for another tool')
    await checkPinned(grant, known.args, event)
    this.#keep(grant, [event.run, event.seq])
  }

  #keep(grant: Grant, place: Place): void {
    const versions = this.#grants.get(grant.id) ?? new Map<number, Kept>()
    if (versions.has(grant.version)) throw new Caught(`${grant.id} has its version ${grant.version} twice`)
    this.#grants.set(grant.id, versions.set(grant.version, { grant, place }))
  }

  /** Takes in an event about no effect, if it tells of a permission. */
  takeFact({ type, facts, run, seq }: FactBody, shown: Values): void {
    const policy = shown.get('policy')
    if (type === 'policy_checked' && policy && readVerdict(policy).decision !== 'refuse') throw new Caught('a call that never was an effect was refused, and its policy says otherwise')
    if (type === 'policy_applied' && policy && readPolicy(policy).version !== facts.version) throw new Caught('its policy has another version than it says')
    const kind = Object.hasOwn(FACTS_OF_SHEETS, type) ? FACTS_OF_SHEETS[type]! : ''
    const value = shown.get(kind)
    if (!value) {
      this.#unshown.add(kind)
      return
    }
    const isNamed = ({ id }: { readonly id: string }, isEnded: boolean, ending: string) => id === facts.id && isEnded === type.endsWith(ending)
    if (kind === 'credential') check(kind, isNamed(readCredential(value), readCredential(value).is_revoked, 'credential_revoked'))
    else if (kind === 'person') check(kind, isNamed(readPerson(value), readPerson(value).is_revoked, 'person_revoked'))
    else if (kind === 'stop') check(kind, readStop(value).is_in_force === (type === 'effects_stopped'))
    else if (kind === 'provider') readProvider(value)
    else if (kind === 'grant') {
      const grant = readGrant(value)
      check(kind, isNamed(grant, grant.is_ended, '_ended'))
      this.#keep(grant, [run, seq])
    } else if (kind === 'delegation') {
      const delegation = readDelegation(value)
      check(kind, isNamed(delegation, delegation.is_ended, '_ended'))
      if (!delegation.is_ended) this.#delegations.push(delegation)
    }
  }

  /** Throws `Caught` when something does not hold between runs: uses of grants, and votes for others. */
  close(): void {
    for (const versions of this.#grants.values()) {
      for (const [number, { grant }] of versions) {
        const earlier = versions.get(number - 1)
        if (earlier) checkUse(earlier, grant)
        else if (this.isWhole && !this.#unshown.has('grant') && number !== 1) throw new Caught(`${grant.id} was never given, or a state of it is missing`)
      }
    }
    if (!this.isWhole || this.#unshown.has('delegation')) return
    for (const { giver, vote } of this.#delegated) {
      const isGiven = this.#delegations.some((one) => samePerson(one.giver, giver) && samePerson(one.to, vote.by) && one.credential === vote.delegated_with)
      if (!isGiven) throw new Caught(`${giver} never let ${vote.by} decide for them`)
    }
  }
}

function check(kind: string, isSaid: boolean): void {
  if (!isSaid) throw new Caught(`its ${kind} is another than it says`)
}

/** Each state of a grant is the one before with a use less, or withdrawn; and what is over is not used. */
function checkUse({ grant: before, place }: Kept, grant: Grant): void {
  const next = { ...before, version: before.version + 1, before: place }
  const isUse = isSame(grant, { ...next, uses_left: before.uses_left - 1 }) || isSame(grant, { ...next, is_ended: true })
  if (!isUse || isOver(before)) throw new Caught(`${grant.id} does not follow from its state before`)
}

/** Throws when something happened that the policy's own words do not allow. */
function checkVerdict({ type, commits }: EffectBody, { question }: Before, decision: string): void {
  if ((decision === 'refuse') !== (type === 'policy_checked')) throw new Caught(`its policy says ${decision}, and it is ${type}`)
  const isEntered = type === 'tool_call_started' && !('approval' in commits) && !('grant' in commits)
  if (isEntered && decision === 'ask' && question !== UNKNOWN) throw new Caught('its policy asks, and its effect was entered without an approval or a grant')
}

/** An approval is about the effect whose event commits to it, and stands as the event says. */
function checkAbout({ effect, run, tool, side_effect, type, log, commits }: EffectBody, found: Approval, key: string | null): void {
  const isIt = found.effect === effect && found.run === run && found.tool === tool && found.side_effect === side_effect
  if (!isIt || found.status !== STATUS_AFTER[type]) throw new Caught('its approval is about something else, or stands otherwise')
  const [tenant, , ownKey] = found.place
  if (tenant !== tenantOf(log) || (key !== null && ownKey !== key)) throw new Caught('its approval is of another tenant or key')
  if (type === 'approval_received' && found.grant === null && 'grant' in commits) throw new Caught('its approval names no grant, and one comes with it')
}

/** A question that was just asked has no answers, and stands in the place of the one that was asked before. */
function checkAsked({ actor }: EffectBody, found: Approval, replaces: string | null, editors: readonly string[]): void {
  const asked = { version: 1, votes: [], escalated: 0, grant: null, attempt: null, taken_back: [], requester: actor, replaces }
  checkSame({ ...found, ...asked, editors: found.editors.length > 0 && replaces !== null ? editors : [], expires_at: later(found.asked_at, found.question.expires)! }, found)
  if (found.id === found.replaces) throw new Caught(`${found.id} replaces itself`)
}

function checkSame(expected: Approval, found: Approval): void {
  if (!isSame(expected, found)) throw new Caught(`its approval ${found.id} is not what the rules make of it`)
}

/** An approval binds the arguments on the record, where they are shown, and names the event that has them. */
async function checkArgs(found: Approval, { args, argsSeq }: Asked): Promise<void> {
  if (argsSeq !== null && found.args_seq !== argsSeq) throw new Caught('its approval is about other arguments')
  if (args === null) return
  const { id, place, for_run, tool, schema, policy, expires_at } = found
  if ((await hashed('indelible/approval/v1', place[0]!, id, for_run, tool, schema, args, policy, expires_at)) !== found.digest) throw new Caught('its approval has another digest than what was asked')
}

/** Gives what an approval has to be after an event, given what it was before. */
async function follows(event: EffectBody, before: Approval, found: Approval): Promise<Approval> {
  const { type, attempt, commits } = event
  const next = { ...before, version: before.version + 1 }
  if (VOTES.includes(type)) {
    const counted = await count(before, newestVote(event, found, before.votes.length), event.actor.kind)
    // Where no grant comes with it, older ledgers left the name of one whose approval had fallen away.
    return counted.status === 'approved' && ('grant' in commits || found.grant === null) ? { ...counted, grant: found.grant } : counted
  }
  if (type === 'approval_revoked') return unvoted(event, before, found)
  if (type === 'approval_edited') return edited(event, before, found)
  if (type === 'approval_escalated') {
    const isStep = found.escalated >= before.escalated && found.escalated <= before.question.escalations.length
    return { ...next, escalated: isStep ? found.escalated : before.escalated }
  }
  if (type === 'tool_call_started') return { ...next, status: 'consumed', attempt }
  if (type !== 'tool_call_released') return { ...next, status: STATUS_AFTER[type]! }
  return before.status === 'consumed' && before.attempt === attempt ? { ...next, status: 'approved', attempt: null } : before
}

async function count(before: Approval, vote: Vote, kind: string): Promise<Approval> {
  const counted = await voted(before, vote, kind)
  if (typeof counted === 'string') throw new Caught(`${before.id} ${counted}`)
  return counted
}

/** Gives the vote that an event tells of: it is there, and its actor's. */
function newestVote({ actor, at }: EffectBody, found: Approval, earlier: number): Vote {
  const vote = found.votes.at(-1)
  if (!vote || found.votes.length <= earlier) throw new Caught('no vote came to its approval by this vote')
  if (vote.by !== actor.id || vote.via !== actor.via || vote.at !== at) throw new Caught('its vote is not by whom it says, or not of then')
  if (vote.credential !== null && vote.via !== 'api_key') throw new Caught('its vote names a token, and was cast without one')
  if (vote.delegated_with !== null && vote.on_behalf_of === null) throw new Caught('its vote names a token that delegated it, and was not delegated')
  return vote
}

/** Counts all votes of an approval whose state before is not shown. */
async function recount(event: EffectBody, found: Approval): Promise<void> {
  const newest = VOTES.includes(event.type) ? newestVote(event, found, 0) : null
  let counted: Approval = { ...found, status: 'pending', votes: [] }
  for (const vote of found.votes) counted = { ...(await count(counted, vote, vote === newest ? event.actor.kind : 'person')), status: 'pending' }
}

/** Takes the actor's own vote back; the ledger itself takes those of people who were revoked. */
function unvoted({ actor }: EffectBody, before: Approval, found: Approval): Approval {
  const isSystem = actor.kind === 'system'
  const isOpen = ['pending', 'approved'].includes(before.status) && before.expires_at > before.asked_at
  const votes = before.votes.filter((vote) => (isSystem ? found.votes.some((one) => isSame(one, vote)) : !samePerson(vote.by, actor.id)))
  if ((!isSystem && !isOpen) || votes.length === before.votes.length) throw new Caught(`${before.id} lost no vote by this`)
  const signers = isSystem ? [] : before.votes.filter((vote) => vote.signature !== null && !votes.includes(vote)).map((vote) => vote.by)
  return { ...before, version: before.version + 1, status: 'pending', votes, taken_back: [...before.taken_back, ...signers] }
}

/** Gives the question as it is after an edit by somebody who could decide it; nobody has voted on it yet. */
async function edited({ actor, at, seq }: EffectBody, before: Approval, found: Approval): Promise<Approval> {
  if (!before.question.may_edit) throw new Caught(`${before.id} may not be edited`)
  const vote: Vote = { at, by: actor.id, credential: null, delegated_with: null, is_approval: false, is_by_editor: false, on_behalf_of: null, signature: null, via: actor.via }
  const asked = { ...before, status: 'pending', votes: [], question: { ...before.question, needs_signature: false } }
  if (asked.expires_at <= asked.asked_at) throw new Caught(`${before.id} expired`)
  await count(asked, vote, actor.kind)
  const { digest, policy, question, asked_at } = found
  const made = { digest, policy, question, asked_at, expires_at: later(asked_at, question.expires)! }
  return { ...before, ...made, version: before.version + 1, status: 'pending', votes: [], escalated: 0, editors: [...before.editors, actor.id], grant: null, args_seq: seq, taken_back: [] }
}

/** A grant that came with an approval rests on its last vote, and on what was approved. */
function checkGiven({ actor }: EffectBody, grant: Grant, approval: Approval | null): void {
  if (grant.version !== 1 || grant.before !== null || isOver(grant) || grant.given_by !== actor.id) throw new Caught(`${grant.id} is not new, or not given by ${actor.id}`)
  if (!approval) return
  const { by, credential, on_behalf_of, delegated_with } = approval.votes.at(-1)!
  const behind = { ...grant, given_by: by, credential, on_behalf_of, delegated_with }
  const bound = { ...behind, id: approval.grant, approval: approval.id, schema: approval.schema, policy: approval.policy, rule: approval.question.rule }
  if (!isSame(bound, grant)) throw new Caught(`${grant.id} is not the grant that came with ${approval.id}`)
  const { needs, needs_signature } = approval.question
  if (needs_signature || needs.reduce((sum, need) => sum + need.count, 0) > 1) throw new Caught(`${grant.id} was given by one, and ${approval.id} takes more than one, or their signature`)
}

/** The arguments, where they are shown in clear, are those that the grant pins. */
async function checkPinned(grant: Grant, args: Bytes | null, { log, tool }: EffectBody): Promise<void> {
  const text = args === null ? null : textOf(args)
  if (text === null || text.startsWith(ENCRYPTED)) return
  const content: unknown = JSON.parse(text)
  const pinned = grant.pin === null ? text : canonical(Object.fromEntries(grant.pin.map((path) => [escaped(path), reach(content, path)])))
  if ((await hashed('indelible/grant/v1', tenantOf(log), tool, pinned)) !== grant.pinned) throw new Caught(`${grant.id} pins other arguments`)
}

/** A name that begins with a dollar sign is written with a second one. */
const escaped = (name: string) => (name.startsWith('$') ? `$${name}` : name)

function reach(args: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((here, name) => {
    if (!isObject(here) || isTagged(here) || !Object.hasOwn(here, escaped(name))) throw new Caught(`a grant pins ${path}, which is not there`)
    return here[escaped(name)]
  }, args)
}
