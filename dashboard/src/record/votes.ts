/** Who may decide an approval, whose votes count, and when they are enough (docs/reference/permissions.md). */

import { concat, fromBase64, fromHex, utf8 } from './bytes'
import { isWeak, verifies } from './curve'
import { looksLike, samePerson } from './names'
import { type Approval, type Named, type Question, type Vote } from './sheets'

const namesIn = ({ by, on_behalf_of }: Vote) => (on_behalf_of === null ? [by] : [by, on_behalf_of])
const find = (people: readonly Named[], name: string) => people.find((one) => samePerson(one.name, name))
const isNeeded = ({ roles }: Named, { needs }: Question) => needs.some(({ role }) => role === null || roles.includes(role))

/** Names those who may decide now, those included to whom it was escalated; null lets everybody. */
function peopleOf({ question, escalated }: Approval): readonly Named[] | null {
  if (question.people === null) return null
  const people = new Map(question.people.map((one) => [one.name, one]))
  for (const step of question.escalations.slice(0, escalated)) for (const one of step.people) people.set(one.name, one)
  return [...people.values()]
}

/** Says why this person may not decide it, whatever its status; null if they may. */
async function whyNotThey(approval: Approval, vote: Vote, kind: string): Promise<string | null> {
  const { question, requester, principal, editors, taken_back, votes } = approval
  const people = peopleOf(approval)
  if (kind !== 'person') return `is decided by people, and ${vote.by} is ${kind}`
  const entitled = vote.on_behalf_of ?? vote.by
  for (const name of [vote.by, entitled]) {
    if (looksLike(name, requester.id) || (principal !== null && looksLike(name, principal))) return `was asked for by ${name}, who therefore cannot decide it`
    if (votes.some((earlier) => namesIn(earlier).some((one) => looksLike(name, one)))) return `was already decided by ${name}`
  }
  const key = keyOf(people, vote.by)
  const hasThisKey = (name: string) => key !== null && keyOf(people, name) === key
  if (votes.some((earlier) => hasThisKey(earlier.by))) return `was already decided with the key of ${vote.by}`
  const person = people === null ? null : find(people, entitled)
  if (person === undefined || (person !== null && !isNeeded(person, question))) return `is not for ${entitled} to decide`
  if (vote.is_approval && isEditor(editors, vote) && !isSoleApprover(approval, people ?? [])) return `was edited by ${vote.by}, who therefore cannot approve it`
  if (vote.is_approval && taken_back.some((name) => samePerson(vote.by, name) || hasThisKey(name))) return `was signed by ${vote.by}, who took that back`
  return whyNotSigned(approval, vote, key)
}

const keyOf = (people: readonly Named[] | null, name: string) => find(people ?? [], name)?.key ?? null

const isEditor = (editors: readonly string[], vote: Vote) => namesIn(vote).some((name) => editors.some((editor) => looksLike(name, editor)))

function isSoleApprover({ question, requester, principal }: Approval, people: readonly Named[]): boolean {
  const able = people.filter((one) => isNeeded(one, question) && ![requester.id, principal ?? requester.id].some((asker) => looksLike(one.name, asker)))
  return question.is_sole_approver && able.length === 1
}

async function whyNotSigned({ digest, question }: Approval, vote: Vote, key: string | null): Promise<string | null> {
  if (vote.signature === null) return question.needs_signature ? `needs the signature of ${vote.by}` : null
  const message = concat(utf8('indelible/vote/v1\0'), fromHex(digest, 32, 'its digest'), Uint8Array.of(vote.is_approval ? 1 : 0))
  const raw = key === null ? null : fromBase64(key)
  const isSigned = raw !== null && !isWeak(raw) && (await verifies(raw, fromBase64(vote.signature), message))
  return isSigned ? null : `carries a signature that is not ${vote.by}'s over what was shown`
}

/** Counts a vote by the rules: gives the approval after it, or says why it does not count. */
export async function voted(approval: Approval, vote: Vote, kind: string): Promise<Approval | string> {
  if (approval.status !== 'pending') return `cannot be decided: it is ${approval.status}`
  if (approval.expires_at <= vote.at) return `expired at ${approval.expires_at}`
  const why = await whyNotThey(approval, vote, kind)
  if (why !== null) return why
  const votes = [...approval.votes, { ...vote, is_by_editor: isEditor(approval.editors, vote) }]
  const counted = { ...approval, version: approval.version + 1, votes }
  if (!vote.is_approval) return { ...counted, status: 'denied' }
  return (await lacking(counted)) === 0 ? { ...counted, status: 'approved' } : counted
}

/** Gives how many approvals are lacking when every vote is looked at again; each voter fills one place at most. */
export async function lacking(approval: Approval): Promise<number> {
  let counted: Approval = { ...approval, votes: [] }
  for (const vote of approval.votes) {
    if (vote.at < approval.expires_at && (await whyNotThey(counted, vote, 'person')) === null) counted = { ...counted, votes: [...counted.votes, vote] }
  }
  const people = peopleOf(approval)
  const voters = counted.votes.filter((vote) => vote.is_approval).map((vote) => (people === null ? null : (find(people, vote.on_behalf_of ?? vote.by)?.roles ?? [])))
  const places = approval.question.needs.flatMap(({ count, role }) => Array<string | null>(count).fill(role))
  const filled = new Map<number, number>()
  const place = (voter: number, tried: Set<number>): boolean =>
    places.some((role, number) => {
      const roles = voters[voter] ?? null
      if (tried.has(number) || !(role === null || roles === null || roles.includes(role))) return false
      tried.add(number)
      if (filled.has(number) && !place(filled.get(number)!, tried)) return false
      filled.set(number, voter)
      return true
    })
  return places.length - voters.filter((_, voter) => place(voter, new Set())).length
}
