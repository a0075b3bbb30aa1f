import { expect, it } from 'vitest'
import fixture from './journal.fixture.json'
import { fromBase64, toBase64, utf8, type Bytes } from './bytes'
import { GrowingTree, leafHash, nodeHash, rootByInclusion } from './merkle'
import { NotReadable, parseHead, parseKey, parseNote, type Key, type Note } from './notes'
import type { Seen } from './trust'
import { Verifier, type Report, type Source } from './verify'

// Sealed by the library itself: 301 entries of 7 runs, and of its own.
const note = parseNote(fixture.note)
const head = parseHead(note.text)

function sourceOf(change: (tiles: { entries: Bytes; hashes: Bytes }[]) => void = () => {}): Source {
  const tiles = fixture.tiles.map((tile) => ({ entries: fromBase64(tile.entries), hashes: fromBase64(tile.hashes) }))
  change(tiles)
  return {
    entries: async (number) => tiles[number]!.entries,
    hashes: async (number) => tiles[number]!.hashes,
  }
}

const verify = (signed: Note, keys: Key[], source: Source, older: Seen | null) => new Verifier(keys, source).advance(signed, older)

async function flawOf(report: Promise<Report>) {
  const told = await report
  if (told.verdict !== 'tampered') throw new Error('it passed')
  return told.flaw
}

it('verifies a journal that the library sealed', async () => {
  const report = await verify(note, [await parseKey(fixture.vkey)], sourceOf(), null)
  expect(report).toMatchObject({ verdict: 'verified', head: { size: head.size } })
})

it('names the entry in which one byte was edited', async () => {
  const source = sourceOf((tiles) => {
    tiles[0]!.entries[2 + 40]! ^= 1 // inside the first entry
  })
  expect(await flawOf(verify(note, [await parseKey(fixture.vkey)], source, null))).toMatchObject({ index: 0, what: expect.stringMatching(/not what was recorded/) as string })
})

it('is not fooled when the hash beside the entry was edited as well', async () => {
  const { entries, hashes } = fixture.tiles[0]!
  const packed = fromBase64(entries)
  const at = new TextDecoder('latin1').decode(packed).indexOf('stripe.charge')
  packed[at] = 'S'.charCodeAt(0)
  const kept = fromBase64(hashes)
  for (let from = 0, index = 0; from < packed.length; index += 1) {
    const length = (packed[from]! << 8) + packed[from + 1]!
    kept.set(await leafHash(packed.slice(from + 2, from + 2 + length)), index * 32)
    from += 2 + length
  }
  const source = sourceOf((tiles) => {
    tiles[0] = { entries: packed, hashes: kept }
  })
  expect((await flawOf(verify(note, [await parseKey(fixture.vkey)], source, null))).what).toMatch(/does not follow|add up/)
})

it('goes on where it was when the journal has grown, and reads nothing twice', async () => {
  const reads: number[] = []
  const source = sourceOf()
  const counting: Source = { ...source, entries: (number, width) => (reads.push(number), source.entries(number, width)) }
  const verifier = new Verifier([await parseKey(fixture.vkey)], counting)
  const seen = { size: head.size, root: toBase64(head.root) }
  await verifier.advance(note, null)
  expect(await verifier.advance(note, seen)).toMatchObject({ verdict: 'verified' })
  expect(reads).toEqual([0, 1])
})

it('refuses a head that another key signed, or nobody', async () => {
  const flaw = await flawOf(verify({ ...note, text: note.text.replace('\n', ' \n') }, [await parseKey(fixture.vkey)], sourceOf(), null))
  expect(flaw.what).toMatch(/another journal/)
})

it('finds an end that was cut off, and a history that was rewritten, by what it saw before', async () => {
  const keys = [await parseKey(fixture.vkey)]
  expect((await flawOf(verify(note, keys, sourceOf(), { size: head.size + 1, root: '' }))).what).toMatch(/cut off/)
  expect((await flawOf(verify(note, keys, sourceOf(), { size: 100, root: toBase64(head.root) }))).what).toMatch(/rewritten/)
})

it('refuses a key whose id is not its own', async () => {
  await expect(parseKey(fixture.vkey.replace(/\+[0-9a-f]{8}\+/, '+00000000+'))).rejects.toBeInstanceOf(NotReadable)
})

it('proves inclusion in trees of every size up to 20', async () => {
  for (let size = 1; size <= 20; size += 1) {
    const leaves = await Promise.all(Array.from({ length: size }, (_, index) => leafHash(utf8(`leaf ${index}`))))
    const tree = new GrowingTree()
    for (const leaf of leaves) await tree.append(leaf)
    const root = await tree.root()
    for (let index = 0; index < size; index += 1) {
      const proof = await proofOf(leaves, index)
      expect(await rootByInclusion(leaves[index]!, index, size, proof)).toEqual(root)
      expect(await rootByInclusion(leaves[index]!, index, size, [...proof, root])).toBeNull()
    }
  }
})

async function rootOf(leaves: Bytes[]): Promise<Bytes> {
  if (leaves.length === 1) return leaves[0]!
  const half = 2 ** Math.floor(Math.log2(leaves.length - 1))
  return nodeHash(await rootOf(leaves.slice(0, half)), await rootOf(leaves.slice(half)))
}

async function proofOf(leaves: Bytes[], index: number): Promise<Bytes[]> {
  if (leaves.length === 1) return []
  const half = 2 ** Math.floor(Math.log2(leaves.length - 1))
  if (index < half) return [...(await proofOf(leaves.slice(0, half), index)), await rootOf(leaves.slice(half))]
  return [...(await proofOf(leaves.slice(half), index - half)), await rootOf(leaves.slice(0, half))]
}
