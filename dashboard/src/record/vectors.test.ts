/** All verifiers give the same verdict for the same bytes: this one reads every published vector. */

import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import { expect, it } from 'vitest'
import { fromBase64, toBase64, type Bytes } from './bytes'
import { canonical } from './canonical'
import { leafHash, nodeHash } from './merkle'
import { NotReadable, parseHead, parseKey, parseNote } from './notes'
import { verdictOf } from './report'
import type { Seen } from './trust'
import { unpack, Verifier } from './verify'

type Patch = readonly [number, number, string]
type Vector = {
  readonly name: string
  readonly base: string
  readonly changes: Readonly<Record<string, readonly Patch[] | null>>
  readonly keys: readonly string[]
  readonly after: readonly string[]
  readonly expected: Readonly<Partial<Record<'report' | 'log', string>>>
}
type Stored = { readonly bases: Readonly<Record<string, Readonly<Record<string, string>>>>; readonly keys: Readonly<Record<string, string>>; readonly vectors: readonly Vector[] }
type Files = Record<string, string>

const stored = JSON.parse(gunzipSync(readFileSync(new URL('../../../src/indelible/testing/record/vectors.json.gz', import.meta.url))).toString('utf8')) as Stored

function filesOf({ base, changes }: Vector): Files {
  const files: Files = { ...stored.bases[base] }
  for (const [name, patches] of Object.entries(changes)) {
    if (patches === null) {
      delete files[name]
      continue
    }
    files[name] = [...patches].reverse().reduce((text, [place, length, put]) => text.slice(0, place) + put + text.slice(place + length), files[name] ?? '')
  }
  return files
}

const bytesOf = (text: string): Bytes => Uint8Array.from(text, (letter) => letter.charCodeAt(0))
const decoded = (text: string) => new TextDecoder().decode(bytesOf(text))
const keysOf = (vector: Vector) => vector.keys.map((name) => stored.keys[name]!)
const fileIn = (files: Files, folder: string) => files[Object.keys(files).find((name) => name.startsWith(folder))!]!

/** The root of neighbours, and the way to it from one of them (RFC 6962). */
async function rootOf(leaves: readonly Bytes[]): Promise<Bytes> {
  if (leaves.length === 1) return leaves[0]!
  const cut = 2 ** Math.floor(Math.log2(leaves.length - 1))
  return nodeHash(await rootOf(leaves.slice(0, cut)), await rootOf(leaves.slice(cut)))
}

async function proofOf(leaves: readonly Bytes[], index: number): Promise<Bytes[]> {
  if (leaves.length === 1) return []
  const cut = 2 ** Math.floor(Math.log2(leaves.length - 1))
  if (index < cut) return [...(await proofOf(leaves.slice(0, cut), index)), await rootOf(leaves.slice(cut))]
  return [...(await proofOf(leaves.slice(cut), index - cut)), await rootOf(leaves.slice(0, cut))]
}

async function entriesOf(files: Files): Promise<{ index: number; body: Bytes; proof: string[] }[]> {
  const receipts = Object.keys(files).filter((name) => name.startsWith('receipts/'))
  if (receipts.length > 0) {
    const read = receipts.map((name) => {
      const [, extra, , ...proof] = files[name]!.split('\n\n')[0]!.split('\n')
      return { index: Number(/\d+/.exec(name)![0]), body: fromBase64(extra!.slice('extra '.length)), proof }
    })
    return read.sort((one, other) => one.index - other.index)
  }
  const packed = bytesOf(fileIn(files, 'tile/entries/'))
  const width = countIn(packed)
  const bodies = unpack(packed, 0, width)
  const leaves = await Promise.all(bodies.map(leafHash))
  return Promise.all(bodies.map(async (body, index) => ({ index, body, proof: (await proofOf(leaves, index)).map(toBase64) })))
}

function countIn(packed: Bytes): number {
  let count = 0
  for (let at = 0; at < packed.length; at += 2 + (packed[at]! << 8) + packed[at + 1]!) count += 1
  return count
}

const harmless = (content: unknown) => canonical(content).replace(/[^\x20-\x7e]|[<>&]/g, (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, '0')}`)

/** Writes a bundle as the record of a report. */
async function recordOf(files: Files): Promise<string> {
  const lines = decoded(files['payloads.ndjson']!).split('\n').slice(0, -1)
  const values = lines.map((line) => JSON.parse(line) as { field: string; index: number; salt: string; value: string })
  const numbers = new Map<string, number>()
  const events = (await entriesOf(files)).map(({ index, body, proof }) => {
    const way = proof.map((node) => {
      const known = numbers.get(node)
      if (known === undefined) numbers.set(node, numbers.size)
      return known ?? node
    })
    const payloads = values.filter((one) => one.index === index).map(({ field, salt, value }) => ({ field, salt, value }))
    return `\n${harmless({ body: toBase64(body), index, payloads, proof: way })}`
  })
  const told = JSON.parse(decoded(files['manifest.json']!)) as Record<string, unknown>
  const manifest = { ...told, ...(told.format === 'indelible/bundle/v1' && { format: 'indelible/report/v1' }) }
  return `{"events":[${events.join(',')}\n],"head":${harmless(decoded(files.checkpoint!))},"manifest":${harmless(manifest)}}\n`
}

function seenIn(note: string): Seen {
  const { size, root } = parseHead(parseNote(note).text)
  return { size, root: toBase64(root) }
}

async function logReport(files: Files, vkeys: readonly string[], after: readonly string[] = []) {
  const source = { entries: async () => bytesOf(fileIn(files, 'tile/entries/')), hashes: async () => bytesOf(fileIn(files, 'tile/0/')) }
  const keys = await Promise.all(vkeys.map(parseKey))
  return new Verifier(keys, source).advance(parseNote(bytesOf(files.checkpoint!)), after.length > 0 ? seenIn(after[0]!) : null)
}

async function logVerdict(files: Files, vkeys: readonly string[], after: readonly string[]): Promise<string> {
  try {
    return (await logReport(files, vkeys, after)).verdict
  } catch (problem) {
    if (problem instanceof NotReadable || (problem instanceof Error && problem.message.includes('base64'))) return 'tampered'
    throw problem
  }
}

const chosen = (form: 'report' | 'log') => stored.vectors.filter((vector) => form in vector.expected)

it('has enough vectors', () => {
  expect(chosen('report').length).toBeGreaterThan(250)
  expect(chosen('log').length).toBeGreaterThan(250)
})

it('gives the verdict of every vector on the record of a report', { timeout: 120_000 }, async () => {
  const wrong: Record<string, string> = {}
  for (const vector of chosen('report')) {
    const found = await verdictOf(await recordOf(filesOf(vector)), keysOf(vector))
    if (found !== vector.expected.report) wrong[vector.name] = found
  }
  console.info(`the report: ${chosen('report').length} vectors judged, ${Object.keys(wrong).length} otherwise than expected`)
  expect(wrong).toEqual({})
})

it('gives the verdict of every vector on the tiles of a log', { timeout: 120_000 }, async () => {
  const wrong: Record<string, string> = {}
  for (const vector of chosen('log')) {
    const found = await logVerdict(filesOf(vector), keysOf(vector), vector.after)
    if (found !== vector.expected.log) wrong[vector.name] = found
  }
  console.info(`the dashboard: ${chosen('log').length} vectors judged, ${Object.keys(wrong).length} otherwise than expected`)
  expect(wrong).toEqual({})
})

it('follows a rotation from the key that it trusts, and tells a key that nobody trusts from an edit', async () => {
  const report = (base: string, key: string, change: (files: Files) => Files = (files) => files) => logReport(change({ ...stored.bases[base] }), [stored.keys[key]!])
  expect((await report('rotated', 'first')).verdict).toBe('verified')
  expect((await report('rotated', 'second')).verdict).toBe('verified')
  expect(await report('rotated', 'third')).toMatchObject({ verdict: 'tampered', isUntrusted: true })
  const edited = (files: Files) => Object.fromEntries(Object.entries(files).map(([name, text]) => [name, name.startsWith('tile/entries/') ? text.replace('run-1', 'run-7') : text]))
  const found = await report('rotated', 'first', edited)
  expect(found.verdict).toBe('tampered')
  expect('isUntrusted' in found && found.isUntrusted).toBe(false)
})

it('reads a journal anew that went on from elsewhere, and says whether the loss was declared', async () => {
  const [first] = keysOf(stored.vectors[0]!)
  const vectorOf = (name: string) => filesOf(stored.vectors.find((one) => one.name === name)!)
  const noteOf = (files: Files) => parseNote(bytesOf(files.checkpoint!))
  const before = { ...stored.bases.calls }
  const declared = vectorOf('kept head: lost, the last one of it')
  const rewritten = vectorOf('kept head: of another history')
  const cut = vectorOf('kept head: of a longer journal')
  let shown: Files = before
  const source = { entries: async () => bytesOf(fileIn(shown, 'tile/entries/')), hashes: async () => bytesOf(fileIn(shown, 'tile/0/')) }
  const verifierOf = async () => {
    const verifier = new Verifier([await parseKey(first!)], source)
    shown = before
    expect((await verifier.advance(noteOf(before), null)).verdict).toBe('verified')
    return verifier
  }
  const seen = seenIn(decoded(before.checkpoint!))
  const verifier = await verifierOf()
  shown = declared
  for (let times = 0; times < 2; times += 1) expect(await verifier.advance(noteOf(declared), seen)).toMatchObject({ verdict: 'cannot_tell', loss: { index: 13, size: 5, lost: { size: 20 } } })
  expect(await verifier.advance(noteOf(declared), seenIn(decoded(declared.checkpoint!)))).toMatchObject({ verdict: 'verified', losses: [{ index: 13 }] })
  for (const other of [rewritten, cut]) {
    const one = await verifierOf()
    shown = other
    expect(await one.advance(noteOf(other), seen)).toMatchObject({ verdict: 'tampered', flaw: { what: expect.stringMatching(/this browser/) as string } })
  }
})
