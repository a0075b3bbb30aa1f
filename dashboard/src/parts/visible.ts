/** Characters that a reader cannot see, or that change how others look, are shown by name: nothing hides in a text. */

// Controls and formats, what is ignored by default, blanks that are no space, halves of characters; and marks that are
// heaped on a letter until they cover what stands around it. Line ends and tabs can be seen.
const HIDDEN = /(?![\t\n])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}|\p{M}(?<=\p{M}{5})/gu

const NAMES: Record<string, string> = {
  '\u0000': 'NUL', '\u001b': 'ESC', '\u0007': 'BEL', '\u0008': 'BS', '\u000d': 'CR', '\u007f': 'DEL', '\u00a0': 'NBSP',
  '\u00ad': 'SHY', '\u200b': 'ZWSP', '\u200c': 'ZWNJ', '\u200d': 'ZWJ', '\u200e': 'LRM', '\u200f': 'RLM', '\u202a': 'LRE',
  '\u202b': 'RLE', '\u202c': 'PDF', '\u202d': 'LRO', '\u202e': 'RLO', '\u2066': 'LRI', '\u2067': 'RLI', '\u2068': 'FSI',
  '\u2069': 'PDI', '\ufeff': 'BOM', '\u2060': 'WJ',
}

export type Piece = { readonly text: string; readonly hidden: boolean }

/** Cuts a text into what can be seen as it is and what is told by its name. */
export function pieces(text: string): Piece[] {
  const found: Piece[] = []
  let from = 0
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > from) found.push({ text: text.slice(from, match.index), hidden: false })
    found.push({ text: nameOf(match[0]), hidden: true })
    from = match.index + match[0].length
  }
  if (from < text.length) found.push({ text: text.slice(from), hidden: false })
  return found
}

/** Tells whether anything hides in a text. */
export function hides(text: string): boolean {
  return text.search(HIDDEN) >= 0
}

/** Writes a text so that nothing hides in it, for where only letters can stand: labels and what is shown on hover. */
export function plainly(text: string): string {
  return pieces(text).map((one) => (one.hidden ? `[${one.text}]` : one.text)).join('')
}

function nameOf(character: string): string {
  const code = character.codePointAt(0) ?? 0
  return NAMES[character] ?? `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
}
