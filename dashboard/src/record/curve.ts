/** Which public keys one person can hold: points of the large prime-order group of Ed25519, written in one way. */

import { toHex, type Bytes } from './bytes'

type Point = readonly [bigint, bigint, bigint, bigint]

const P = 2n ** 255n - 19n
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n
const modP = (number: bigint) => ((number % P) + P) % P

function power(root: bigint, exponent: bigint): bigint {
  let result = 1n
  for (let square = modP(root); exponent > 0n; exponent >>= 1n, square = modP(square * square)) {
    if (exponent & 1n) result = modP(result * square)
  }
  return result
}

const D = modP(-121665n * power(121666n, P - 2n))

function plus([x1, y1, z1, t1]: Point, [x2, y2, z2, t2]: Point): Point {
  const [a, b] = [modP((y1 - x1) * (y2 - x2)), modP((y1 + x1) * (y2 + x2))]
  const [c, d] = [modP(2n * t1 * t2 * D), modP(2n * z1 * z2)]
  const [e, f, g, h] = [b - a, d - c, d + c, b + a]
  return [modP(e * f), modP(g * h), modP(f * g), modP(e * h)]
}

function isNeutralAfter(count: bigint, point: Point): boolean {
  let total: Point = [0n, 1n, 1n, 0n]
  for (; count > 0n; count >>= 1n, point = plus(point, point)) if (count & 1n) total = plus(total, point)
  return modP(total[0]) === 0n && modP(total[1] - total[2]) === 0n
}

/** A key outside of the group lets one signature fit many messages: such a key is nobody's. */
export function isWeak(raw: Bytes): boolean {
  if (raw.length !== 32) return true
  const number = BigInt(`0x${toHex(Uint8Array.from(raw).reverse())}`)
  const [y, sign] = [number & (2n ** 255n - 1n), number >> 255n]
  if (y >= P) return true
  const square = modP((y * y - 1n) * power(D * y * y + 1n, P - 2n))
  let x = power(square, (P + 3n) / 8n)
  if (modP(x * x - square) !== 0n) x = modP(x * power(2n, (P - 1n) / 4n))
  if (modP(x * x - square) !== 0n || x === 0n) return true
  if ((x & 1n) !== sign) x = P - x
  const point: Point = [x, y, 1n, modP(x * y)]
  return isNeutralAfter(8n, point) || !isNeutralAfter(ORDER, point)
}

/** Says whether a signature is this key's over a message. */
export async function verifies(raw: Bytes, signature: Bytes, message: Bytes): Promise<boolean> {
  const key = await crypto.subtle.importKey('raw', raw, 'Ed25519', false, ['verify'])
  return signature.length === 64 && (await crypto.subtle.verify('Ed25519', key, signature, message))
}
