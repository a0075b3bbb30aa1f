/** People's names: when two of them are one person's, and when one could be taken for another (docs/reference/permissions.md). */

import { lettersOf } from './labels'
import rules from './rules.json'

const FOLDS: Readonly<Record<string, string>> = rules.folds
const TWINS: Readonly<Record<string, string>> = rules.twins
const DRAWS_NOTHING = /[\p{Cc}\p{Cf}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\u{e0000}-\u{e0fff}]/gu
const SEEN = /[^\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u
const MOST_LETTERS = 500

/** Says whether a text can name an actor, a person or a credential. */
export function isName(text: string): boolean {
  return SEEN.test(text) && [...text].length <= MOST_LETTERS && !text.includes('\0')
}

export function folded(name: string): string {
  const plain = foldedText(name)
  const at = plain.lastIndexOf('@')
  if (at < 0) return plain
  const labels = plain.slice(at + 1).replaceAll('\u3002', '.').replace(/[. ]+$/, '').split('.')
  return `${plain.slice(0, at)}@${labels.map(foldedLabel).join('.')}`
}

function foldedText(text: string): string {
  const drawn = text.replace(DRAWS_NOTHING, '').normalize('NFKC')
  const small = Array.from(drawn, (letter) => FOLDS[letter] ?? letter.toLowerCase()).join('')
  const plain = small.normalize('NFKC').split(/\p{Z}+/u).filter(Boolean).join(' ')
  return plain === text ? plain : foldedText(plain)
}

function foldedLabel(label: string): string {
  const letters = foldedText(lettersOf(label) ?? '')
  return letters === '' || letters.startsWith('xn--') || /[.\u3002@ ]/.test(letters) ? label : letters
}

const shapeOf = (name: string) => Array.from(folded(name), (letter) => TWINS[letter] ?? letter).join('')

/** Case, width, composition and what nobody sees do not make two people of one. */
export const samePerson = (one: string, other: string) => folded(one) === folded(other)

/** This takes rights away and gives none: a name that only looks like another one is not that person's. */
export const looksLike = (one: string, other: string) => shapeOf(one) === shapeOf(other)
