/** Verifies the record inside an HTML report: an excerpt with proofs, values and a manifest. Knows nothing of the page. */

import { Caught, fromHex, same, strictBase64, textOf, toBase64, toHex, type Bytes } from './bytes'
import { isObject, readBody, type Body } from './bodies'
import { canonical } from './canonical'
import { Examination } from './examination'
import { leafHash, nodeHash, rootByInclusion } from './merkle'
import { NotReadable, parseHead, parseKey, parseNote, type Head, type Key, type Note } from './notes'
import { commitmentOf, type Value } from './payloads'
import { KeyChain } from './trust'

type Part = 'tree' | 'chain' | 'values' | 'manifest'
export type Problem = { readonly part: Part; readonly what: string; readonly expected?: string; readonly found?: string; readonly event?: Shown }
export type Shown = {
  index: number | null
  hash: string | null
  body: Bytes | null
  text: string | null
  fields: Record<string, unknown> | null
  payloads: (Value & { isGood: boolean })[]
  absent: { readonly field: string; isErased: boolean }[]
  problems: Problem[]
}
export type Manifest = Record<string, unknown>
export type Record_ = { events: Shown[]; problems: Problem[]; note: Note | null; head: Head | null; manifest: Manifest; payloads: number; begins: Map<string, number>; chain: KeyChain | null }

const TEXTS = ['format', 'indelible', 'kind', 'made_at', 'origin', 'root']
const NUMBERS = ['events', 'first', 'last', 'payloads', 'size', 'withheld']
const MEMBERS = [...TEXTS, ...NUMBERS, 'keys', 'run'].sort()
const AT_ONCE = 250

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0
const pause = () => new Promise((go) => setTimeout(go))

/** Strict: what has a member more or less than it should is refused. */
function members(object: unknown, names: readonly string[], what: string): Record<string, unknown> {
  if (!isObject(object) || Object.keys(object).sort().join() !== names.join()) throw new Caught(`${what} has members missing or added`)
  return object
}

/** Reads the record's JSON; it is written in one way only, so that no two readers see two records in it. */
export function readRecord(text: string): unknown {
  let record: unknown
  try {
    record = JSON.parse(text)
    if (!isObject(record) || !Array.isArray(record.events)) throw new Caught()
    const events = record.events.map((event) => `\n${harmless(event)}`).join(',')
    if (`{"events":[${events}\n],"head":${harmless(record.head)},"manifest":${harmless(record.manifest)}}\n` === text.trimStart()) return record
  } catch {
    // told below
  }
  throw new Caught('the record is not written as a report writes it')
}

const harmless = (content: unknown) => canonical(content).replace(/[^\x20-\x7e]|[<>&]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Gives everything there is to say about a record, but whose signature its head carries. */
export async function checkRecord(text: string, progress: (part: number) => void = () => {}): Promise<Record_> {
  const report: Record_ = { events: [], problems: [], note: null, head: null, manifest: {}, payloads: 0, begins: new Map(), chain: null }
  try {
    const record = members(readRecord(text), ['events', 'head', 'manifest'], 'the record')
    if (typeof record.head !== 'string') throw new Caught('the signed head cannot be read')
    report.note = parseNote(record.head)
    report.head = parseHead(report.note.text)
    report.manifest = readManifest(record.manifest)
    const events = record.events as unknown[]
    if (events.length === 0) throw new Caught('the record holds no events')
    const nodes: Bytes[] = []
    for (let number = 0; number < events.length; number += AT_ONCE) {
      for (const given of events.slice(number, number + AT_ONCE)) report.events.push(await readEvent(given, report.head, nodes))
      progress(report.events.length / events.length)
      await pause()
    }
    await examine(report, report.head)
    checkManifest(report, report.head)
  } catch (problem) {
    if (!(problem instanceof Caught)) throw problem
    report.problems.push({ part: 'tree', what: problem.message })
  }
  return report
}

/** Reads one event, and checks what can be told of it alone: its way to the root, and the values it committed to. */
async function readEvent(given: unknown, head: Head, nodes: Bytes[]): Promise<Shown> {
  const event: Shown = { index: null, hash: null, body: null, text: null, fields: null, payloads: [], absent: [], problems: [] }
  const blame = (part: Part, what: string, expected?: string, found?: string) => event.problems.push({ part, what, event, ...(expected !== undefined && { expected }), ...(found !== undefined && { found }) })
  try {
    const proof = proofOf(isObject(given) ? given.proof : null, nodes) // first: later events name its hashes
    const { index, body, payloads } = members(given, ['body', 'index', 'payloads', 'proof'], 'it')
    if (!isCount(index)) throw new Caught('its place in the journal is no number')
    event.index = index
    event.body = strictBase64(body, 'its content')
    const leaf = await leafHash(event.body)
    event.hash = toHex(leaf)
    const root = await rootByInclusion(leaf, index, head.size, proof, hashed)
    if (!root || !same(root, head.root)) blame('tree', 'it does not lead to the signed root: this event, or its proof, was changed', toHex(head.root), root ? toHex(root) : 'a proof of the wrong length')
    event.text = textOf(event.body)
    if (event.text === null) throw new Caught('its content is no UTF-8')
    event.fields = readBody(event.body) as unknown as Record<string, unknown>
    await readValues(event, event.fields as unknown as Body, payloads, blame)
  } catch (problem) {
    if (!(problem instanceof Caught)) throw problem
    blame('tree', problem.message)
  }
  return event
}

async function readValues(event: Shown, body: Body, given: unknown, blame: (part: Part, what: string, expected?: string, found?: string) => void): Promise<void> {
  if (!Array.isArray(given)) throw new Caught('its payloads are none')
  for (const one of given as unknown[]) {
    const { field, salt, value } = members(one, ['field', 'salt', 'value'], 'a value')
    if (typeof field !== 'string') throw new Caught('a value belongs to no field')
    const shown = { field, salt: fromHex(salt, 32, 'a salt'), value: strictBase64(value, 'a value') }
    const [expected, found] = [Object.hasOwn(body.commits, field) ? body.commits[field]! : 'no such value', await commitmentOf(shown)]
    const isGood = expected === found && !event.payloads.some((other) => other.field === field)
    if (!isGood) blame('values', `its “${field}” is not the value this event committed to`, expected, found)
    event.payloads.push({ ...shown, isGood })
  }
  event.absent = Object.keys(body.commits)
    .filter((name) => !event.payloads.some((one) => one.field === name))
    .map((field) => ({ field, isErased: false }))
}

/** A hash that came before is named by its number, so that it stands in the file once. */
function proofOf(given: unknown, nodes: Bytes[]): Bytes[] {
  if (!Array.isArray(given)) throw new Caught('its proof is none')
  return given.map((one: unknown) => {
    if (isCount(one) && one < nodes.length) return nodes[one]!
    const node = strictBase64(one, 'a hash of its proof')
    if (node.length !== 32) throw new Caught('its proof is none')
    nodes.push(node)
    return node
  })
}

// Neighbours share most of their way to the root, so each pair is hashed once.
const known = new Map<string, Promise<Bytes>>()
function hashed(left: Bytes, right: Bytes): Promise<Bytes> {
  const pair = toHex(left) + toHex(right)
  const found = known.get(pair) ?? nodeHash(left, right)
  known.set(pair, found)
  return found
}

/** Follows the events in their order, up to the first that the rules do not allow. */
async function examine(report: Record_, head: Head): Promise<void> {
  const { kind, withheld } = report.manifest
  const examination = new Examination(head.origin, kind !== 'period', kind === 'journal')
  report.chain = examination.chain
  let before = kind === 'journal' ? -1 : null
  for (const event of report.events) {
    if (event.fields) noteBegin(report, event.fields as unknown as Body)
    if (event.problems.length > 0 || event.body === null || event.index === null) return // what follows rests on it
    try {
      const isNext = before === null || (kind === 'run' ? event.index > before : event.index === before + 1)
      if (!isNext) throw new Caught('events before it are missing, doubled or out of order')
      before = event.index
      await examination.take(event.index, event.body, event.payloads)
    } catch (problem) {
      if (!(problem instanceof Caught)) throw problem
      event.problems.push({ part: 'chain', what: problem.message, event })
      return
    }
  }
  if (kind === 'journal' && before !== head.size - 1) report.problems.push({ part: 'chain', what: "the journal's last events are missing", expected: `${head.size} entries`, found: `${(before ?? -1) + 1} entries` })
  markErased(report)
  try {
    examination.tally.close(withheld as number, kind === 'journal')
    examination.permissions.close()
  } catch (problem) {
    if (!(problem instanceof Caught)) throw problem
    report.problems.push({ part: 'values', what: problem.message })
  }
}

function noteBegin({ begins }: Record_, { run, seq }: Body): void {
  if (!begins.has(run)) begins.set(run, seq)
}

function readManifest(given: unknown): Manifest {
  const manifest = members(given, MEMBERS, 'the manifest')
  const { kind, keys, run } = manifest
  const isGood = TEXTS.every((name) => typeof manifest[name] === 'string') && NUMBERS.every((name) => isCount(manifest[name])) && Array.isArray(keys) && keys.every((key) => typeof key === 'string')
  const isKnown = ['journal', 'run', 'period'].includes(kind as string) && (kind === 'run' ? typeof run === 'string' : run === null)
  if (!isGood || !isKnown || manifest.format !== 'indelible/report/v1') throw new Caught('the manifest is none of the format indelible/report/v1')
  return manifest
}

/** Nothing in the manifest is trusted: where it contradicts the rest, somebody changed something. */
function checkManifest(report: Record_, head: Head): void {
  const { manifest, events } = report
  report.payloads = events.reduce((sum, event) => sum + event.payloads.length, 0)
  const truths: Record<string, unknown> = { origin: head.origin, size: head.size, root: toBase64(head.root), events: events.length, payloads: report.payloads, first: events[0]!.index, last: events.at(-1)!.index }
  for (const [name, truth] of Object.entries(truths)) {
    if (manifest[name] !== truth) report.problems.push({ part: 'manifest', what: `the manifest's “${name}” is not what the record shows`, expected: String(truth), found: String(manifest[name]) })
  }
  for (const event of manifest.kind === 'run' ? events : []) {
    if (event.fields && event.fields.run !== manifest.run) event.problems.push({ part: 'chain', what: 'it belongs to another run', expected: String(manifest.run), found: String(event.fields.run), event })
  }
}

/** A value that went by an event of its run was erased lawfully; one that is only absent may have been withheld. */
function markErased({ events }: Record_): void {
  const erased = new Set<string>()
  const named = (run: unknown, seq: unknown, field: unknown) => JSON.stringify([run, seq, field])
  for (const { fields } of events) {
    if (fields?.type !== 'payload_erased') continue
    const { erased: gone } = fields.facts as { erased: { seq: number; fields: string[] }[] }
    for (const one of gone) for (const name of one.fields) erased.add(named(fields.run, one.seq, name))
  }
  for (const event of events) for (const one of event.absent) one.isErased = erased.has(named(event.fields?.run, event.fields?.seq, one.field))
}

export type Signed = { readonly state: 'signed' | 'foreign' | 'forged' | 'retired' | 'unsigned' | 'cannot' | 'unreadable'; readonly key?: Key; readonly why?: string }

/** Says whose signature the head carries, as the journal's own words let it count; a browser without Ed25519 never says signed. */
export async function checkSignature(report: Record_, vkeys: readonly string[]): Promise<Signed> {
  const { note, head } = report
  if (!note || !head) return { state: 'unreadable', why: 'the record cannot be read' }
  const keys: Key[] = []
  try {
    for (const vkey of vkeys) keys.push(await parseKey(vkey))
  } catch (problem) {
    return { state: 'unreadable', why: problem instanceof NotReadable ? problem.message : 'This key cannot be read.' }
  }
  const [key] = keys
  const chain = report.chain ?? new KeyChain(head.origin)
  try {
    if (!keys.some((one) => one.name === head.origin)) return { state: 'foreign', ...(key && { key }) }
    await KeyChain.checkAtOnce(note, head, keys)
    return { state: 'signed', key: await chain.checkSigned(note, head, keys) }
  } catch (problem) {
    if (!(problem instanceof Caught)) return { state: 'cannot', ...(key && { key }) }
    const state = problem.message.includes('does not fit') ? 'forged' : problem.message.includes('replaced or revoked') ? 'retired' : 'unsigned'
    return { state, why: problem.message, ...(key && { key }) }
  }
}

/** Gives the one word for a record and the keys that came another way. */
export async function verdictOf(text: string, vkeys: readonly string[]): Promise<'verified' | 'tampered' | 'cannot_tell'> {
  const report = await checkRecord(text)
  const isBad = report.problems.length > 0 || report.events.some((event) => event.problems.length > 0)
  if (isBad) return 'tampered'
  if (vkeys.length === 0) return 'cannot_tell'
  const { state } = await checkSignature(report, vkeys)
  return state === 'signed' ? 'verified' : state === 'cannot' || state === 'unreadable' ? 'cannot_tell' : 'tampered'
}

export { textOf, toHex } from './bytes'
export { isRecorded } from './canonical'
