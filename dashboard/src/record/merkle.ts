/** The tree of RFC 6962, grown leaf by leaf: what is kept is one hash per full subtree, so memory stays small. */

import { concat, sha256, type Bytes } from './bytes'

const LEAF = Uint8Array.of(0)
const NODE = Uint8Array.of(1)

export function leafHash(entry: Bytes): Promise<Bytes> {
  return sha256(concat(LEAF, entry))
}

export function nodeHash(left: Bytes, right: Bytes): Promise<Bytes> {
  return sha256(concat(NODE, left, right))
}

/** Is a tree that only grows. */
export class GrowingTree {
  #size = 0
  #peaks: Bytes[] = [] // roots of full subtrees, the largest first; as many as there are ones in the binary size

  get size(): number {
    return this.#size
  }

  async append(leaf: Bytes): Promise<void> {
    let carried = leaf
    for (let rest = this.#size; rest % 2 === 1; rest = Math.floor(rest / 2)) {
      carried = await nodeHash(this.#peaks.pop()!, carried)
    }
    this.#peaks.push(carried)
    this.#size += 1
  }

  async root(): Promise<Bytes> {
    if (this.#peaks.length === 0) return sha256(new Uint8Array())
    let root = this.#peaks.at(-1)!
    for (const peak of this.#peaks.slice(0, -1).reverse()) root = await nodeHash(peak, root)
    return root
  }
}

/** Computes the root that a proof of inclusion leads to (RFC 9162, 2.1.3.2); null when the proof has a wrong length. */
export async function rootByInclusion(leaf: Bytes, index: number, size: number, proof: readonly Bytes[], hashed = nodeHash): Promise<Bytes | null> {
  if (index >= size) return null
  let [place, last, root] = [index, size - 1, leaf]
  for (const sibling of proof) {
    if (last === 0) return null
    if (place % 2 === 1 || place === last) {
      root = await hashed(sibling, root)
      while (place % 2 === 0 && place !== 0) [place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
    } else {
      root = await hashed(root, sibling)
    }
    ;[place, last] = [Math.floor(place / 2), Math.floor(last / 2)]
  }
  return last === 0 ? root : null
}
