/** A JSON value as lines of text: flat, so that a megabyte can be scrolled, and so that we know which lines were seen. */

export type Row = {
  readonly depth: number
  /** The member's name, or its place in a list; null for a closing bracket and for the rest of a long text. */
  readonly name: string | number | null
  readonly text: string
  readonly kind: 'text' | 'number' | 'word' | 'bracket'
}

/** Is how many characters of a text stand in one line. */
export const LINE = 120

export function rowsOf(value: unknown): Row[] {
  const rows: Row[] = []
  add(rows, value, 0, null)
  return rows
}

function add(rows: Row[], value: unknown, depth: number, name: string | number | null): void {
  if (typeof value === 'string') addText(rows, value, depth, name)
  else if (Array.isArray(value)) addMany(rows, value.map((each, index) => [index, each] as const), '[]', depth, name)
  else if (typeof value === 'object' && value !== null) addMany(rows, Object.entries(value), '{}', depth, name)
  else rows.push({ depth, name, text: String(value), kind: typeof value === 'number' ? 'number' : 'word' })
}

function addMany(rows: Row[], members: (readonly [string | number, unknown])[], brackets: string, depth: number, name: string | number | null): void {
  if (members.length === 0) {
    rows.push({ depth, name, text: brackets, kind: 'bracket' })
    return
  }
  rows.push({ depth, name, text: brackets[0]!, kind: 'bracket' })
  for (const [each, value] of members) add(rows, value, depth + 1, each)
  rows.push({ depth, name: null, text: brackets[1]!, kind: 'bracket' })
}

/** A text is shown as it is, with its line ends; where a line is too long, it goes on in the next. */
function addText(rows: Row[], value: string, depth: number, name: string | number | null): void {
  const characters = [...value] // by code points: no pair is torn apart
  if (characters.length <= LINE && !value.includes('\n')) {
    rows.push({ depth, name, text: quoted(value), kind: 'text' })
    return
  }
  const lines: string[] = []
  let line = ''
  let count = 0
  for (const character of characters) {
    if (count === LINE) {
      lines.push(line)
      line = ''
      count = 0
    }
    line += character
    count += 1
    if (character === '\n') {
      lines.push(line)
      line = ''
      count = 0
    }
  }
  lines.push(line)
  lines.forEach((each, index) => {
    const text = quoted(each).slice(1, -1)
    const first = index === 0 ? '"' : ''
    const last = index === lines.length - 1 ? '"' : ''
    rows.push({ depth: index === 0 ? depth : depth + 1, name: index === 0 ? name : null, text: first + text + last, kind: 'text' })
  })
}

/** Quotes as JSON does, but leaves what cannot be seen for `Text` to name. */
function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`
}
