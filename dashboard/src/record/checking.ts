/** Whether the record holds, as this browser sees it: one check for the whole page, which goes on as the journal grows. */

import { useSyncExternalStore } from 'react'
import { api, HOME, Problem, told } from '../api/client'
import { toBase64, type Bytes } from './bytes'
import { isOfTenant, parseHead, parseKey, parseNote, type Head } from './notes'
import { remember, rememberSeen, remembered, type Pinned } from './pinned'
import type { Continuation, Seen } from './trust'
import { Verifier, WIDTH, type Flaw, type Source } from './verify'

export type Checked =
  | { readonly is: 'unknown' }
  | { readonly is: 'empty' }
  | { readonly is: 'large'; readonly size: number }
  | { readonly is: 'checking'; readonly done: number; readonly all: number }
  | { readonly is: 'verified'; readonly head: Head; readonly at: number; readonly pinned: Pinned; readonly isFirst: boolean; readonly runs: number; readonly losses: readonly Continuation[] }
  | { readonly is: 'lost'; readonly head: Head; readonly loss: Continuation; readonly pinned: Pinned }
  | { readonly is: 'other-key'; readonly vkey: string; readonly pinned: Pinned }
  | { readonly is: 'tampered'; readonly head: Head; readonly flaw: Flaw }
  | { readonly is: 'trouble'; readonly error: unknown }

/** A journal with more entries is read only when somebody asks for it: it would be many megabytes. */
const AUTOMATIC = 20_000

let checked: Checked = { is: 'unknown' }
let verifier: Verifier | null = null
let working: Promise<void> | null = null
const listeners = new Set<() => void>()

export function useChecked(): Checked {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => checked,
  )
}

function become(next: Checked): void {
  checked = next
  for (const each of listeners) each()
}

/** Checks up to the newest head; one check at a time. What was found to be tampered with stays so. */
export function check(isAsked: boolean): Promise<void> {
  if (checked.is === 'tampered' && !isAsked) return Promise.resolve()
  working ??= run(isAsked)
    .catch((error: unknown) => become({ is: 'trouble', error }))
    .finally(() => {
      working = null
    })
  return working
}

const seenOf = ({ size, root }: Head): Seen => ({ size, root: toBase64(root) })

/** Checks from the first entry with what is remembered now; a check that is under way began with what was remembered before. */
async function checkAnew(): Promise<void> {
  await working
  await check(true)
}

async function run(isAsked: boolean): Promise<void> {
  const memory = remembered()
  const newest = await told(api.GET('/v1/journal/head')).catch((error: unknown) => {
    if (error instanceof Problem && error.status === 404) return null
    throw error
  })
  if (!newest) return become({ is: 'empty' })
  const note = parseNote(newest.note)
  const head = parseHead(note.text)
  if (isAsked) verifier = null // from the first entry, for whoever wants to know
  if (!verifier && !isAsked && head.size > AUTOMATIC) return become({ is: 'large', size: head.size })
  const { tenant } = await told(api.GET('/v1/me'))
  if (!isOfTenant(head.origin, tenant)) return become({ is: 'tampered', head, flaw: { what: 'the server shows the journal of another tenant', expected: tenant, found: head.origin } })
  const found = await trusted(memory.get(head.origin))
  verifier ??= new Verifier([await parseKey(found.pinned.vkey)], tiles)
  const report = await verifier.advance(note, found.pinned.seen, (done, all) => become({ is: 'checking', done, all }))
  if (report.verdict === 'tampered') {
    verifier = null
    // A rotation that the trusted key signed is followed; any other key has to be compared by a person.
    if (found.other && report.isUntrusted) return become({ is: 'other-key', vkey: found.other, pinned: found.pinned })
    return become({ is: 'tampered', head, flaw: report.flaw })
  }
  if (report.verdict === 'cannot_tell') {
    if (!report.loss) throw new Error('no key of this journal is known')
    return become({ is: 'lost', head, loss: report.loss, pinned: found.pinned })
  }
  const pinned = { ...found.pinned, seen: seenOf(head) }
  rememberSeen(head.origin, found.pinned, pinned.seen)
  become({ is: 'verified', head, at: Date.now(), pinned, isFirst: found.isFirst, runs: report.runs, losses: report.losses })
}

/** Gives the verifier when it has verified so many entries, or all that there are; null while the journal does not hold. */
export async function verifiedUpTo(size: number): Promise<{ readonly head: Head; readonly verifier: Verifier } | null> {
  for (let tries = 0; tries < 2; tries += 1) {
    await check(false) // one that was under way may have asked for its head before
    if (checked.is !== 'verified' || !verifier) return null
    if (checked.head.size >= size) break
  }
  return checked.is === 'verified' && verifier ? { head: checked.head, verifier } : null
}

type Trusted = { readonly pinned: Pinned; readonly isFirst: boolean; readonly other: string | null }

/** Gives the key that this browser trusts; on the first visit the one that the server names, which is said. */
async function trusted(pinned: Pinned | undefined): Promise<Trusted> {
  const listed = await told(api.GET('/.well-known/indelible-keys.json'))
  const current = listed.keys.find((key) => key.status === 'current')?.vkey
  if (pinned) return { pinned, isFirst: false, other: current && current !== pinned.vkey ? current : null }
  if (!current) throw new Error('the server names no key of this journal')
  return { pinned: { vkey: current, since: new Date().toISOString(), seen: null }, isFirst: true, other: null }
}

/** Trusts another key from now on: somebody compared it, or a rotation is known of. */
export async function trust(vkey: string, pinned: Pinned): Promise<void> {
  const key = await parseKey(vkey)
  remember(key.name, { ...pinned, vkey, since: new Date().toISOString() })
  await checkAnew()
}

/** Forgets what this browser saw of a part that was declared lost, and goes on from what is shown now: somebody knows of it. */
export async function acceptLoss(head: Head, pinned: Pinned): Promise<void> {
  remember(head.origin, { ...pinned, seen: seenOf(head) })
  await checkAnew()
}

const tiles: Source = {
  entries: (number, width) => tile('entries', number, width),
  hashes: (number, width) => tile('0', number, width),
}

async function tile(level: string, number: number, width: number): Promise<Bytes> {
  const digits = String(number).padStart(Math.ceil(String(number).length / 3) * 3, '0')
  const groups = digits.match(/.../g)!
  const path = groups.map((group, index) => (index < groups.length - 1 ? `x${group}` : group)).join('/')
  const address = new URL(`v1/journal/tile/${level}/${path}${width === WIDTH ? '' : `.p/${width}`}`, HOME)
  const answer = await fetch(address, { credentials: 'same-origin', cache: 'no-store' })
  if (!answer.ok) throw new Problem(answer.status, 'about:blank', 'The journal cannot be read', `${address.pathname} was answered with ${answer.status}`)
  return new Uint8Array(await answer.arrayBuffer())
}
