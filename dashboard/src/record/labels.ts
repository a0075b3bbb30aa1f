/** The letters that a label of a domain stands for (RFC 3492: `xn--bcher-kva` is `bücher`), or null. */

const LONGEST_LABEL = 63

export function lettersOf(label: string): string | null {
  if (!label.startsWith('xn--') || label.length > LONGEST_LABEL || !/^[\x00-\x7f]*$/.test(label)) return null
  const coded = label.slice(4)
  const plain = Math.max(coded.lastIndexOf('-'), 0)
  const letters = Array.from(coded.slice(0, plain), (letter) => letter.codePointAt(0)!)
  let at = plain > 0 ? plain + 1 : 0
  let [point, place, bias] = [128, 0, 72]
  while (at < coded.length) {
    const before = place
    for (let [weight, step] = [1, 36]; ; step += 36) {
      const digit = digitOf(coded[at++])
      if (digit === null) return null
      place += digit * weight
      const threshold = Math.min(Math.max(step - bias, 1), 26)
      if (digit < threshold) break
      weight *= 36 - threshold
    }
    bias = biasAfter(place - before, letters.length + 1, letters.length === plain)
    point += Math.floor(place / (letters.length + 1))
    place %= letters.length + 1
    if (point > 0x10ffff || (point >= 0xd800 && point <= 0xdfff)) return null
    letters.splice(place++, 0, point)
  }
  return letters.length > plain ? String.fromCodePoint(...letters) : null
}

function digitOf(letter: string | undefined): number | null {
  if (letter === undefined) return null
  if (/[a-z]/i.test(letter)) return letter.toLowerCase().charCodeAt(0) - 97
  return /[0-9]/.test(letter) ? Number(letter) + 26 : null
}

function biasAfter(delta: number, size: number, isFirst: boolean): number {
  let rest = Math.floor(delta / (isFirst ? 700 : 2))
  rest += Math.floor(rest / size)
  let bias = 0
  for (; rest > 455; bias += 36) rest = Math.floor(rest / 35)
  return bias + Math.floor((36 * rest) / (rest + 38))
}
