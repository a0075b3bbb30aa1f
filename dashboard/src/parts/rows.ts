/** A JSON value as lines of text: flat, so that a megabyte can be scrolled, and so that we know which lines were seen. */

import { hides } from './visible'

export type Row = {
  readonly depth: number
  /** The member's name, or its place in a list; null for a closing bracket and for the rest of a long text. */
  readonly name: string | null
  readonly text: string
  readonly kind: 'text' | 'number' | 'word' | 'bracket' | 'name'
}

/** Is how many characters of a text stand in one row; a character that is told by its name takes the room of several. */
export const LINE = 120
const ROOM_OF_A_NAME = 8
/** Is how long a member's name may be to stand before its value; a longer one has rows of its own. */
const LONGEST_NAME = 60
/** Names that cannot be mistaken for anything else stand as they are; all others in quotes. */
const PLAIN_NAME = /^[\p{L}\p{M}\p{N}_$.-]+$/u

export function rowsOf(value: unknown): Row[] {
  const rows: Row[] = []
  add(rows, value, 0, null)
  return rows
}

function add(rows: Row[], value: unknown, depth: number, name: string | null): void {
  if (typeof value === 'string') addText(rows, value, depth, name)
  else if (Array.isArray(value)) addMany(rows, value.map((each, index) => [String(index), each] as const), '[]', depth, name)
  else if (typeof value === 'object' && value !== null) addMembers(rows, value, depth, name)
  else rows.push({ depth, name, text: String(value), kind: typeof value === 'number' ? 'number' : 'word' })
}

function addMembers(rows: Row[], value: object, depth: number, name: string | null): void {
  const members = Object.entries(value).map(([each, one]) => [PLAIN_NAME.test(each) && !hides(each) ? each : quoted(each), one] as const)
  addMany(rows, members, '{}', depth, name)
}

function addMany(rows: Row[], members: (readonly [string, unknown])[], brackets: string, depth: number, name: string | null): void {
  if (members.length === 0) {
    rows.push({ depth, name, text: brackets, kind: 'bracket' })
    return
  }
  rows.push({ depth, name, text: brackets[0]!, kind: 'bracket' })
  for (const [each, value] of members) {
    const isLong = each.length > LONGEST_NAME
    if (isLong) cut(`${each}:`).forEach((text, index) => rows.push({ depth: depth + (index === 0 ? 1 : 2), name: null, text, kind: 'name' }))
    add(rows, value, depth + (isLong ? 2 : 1), isLong ? null : each)
  }
  rows.push({ depth, name: null, text: brackets[1]!, kind: 'bracket' })
}

/** A text is shown as it is, with its line ends; where a line is too long, it goes on in the next. */
function addText(rows: Row[], value: string, depth: number, name: string | null): void {
  if (value.length <= LINE && !value.includes('\n') && !hides(value)) {
    rows.push({ depth, name, text: quoted(value), kind: 'text' })
    return
  }
  const lines = cut(value)
  lines.forEach((each, index) => {
    const text = quoted(each).slice(1, -1)
    const first = index === 0 ? '"' : ''
    const last = index === lines.length - 1 ? '"' : ''
    rows.push({ depth: index === 0 ? depth : depth + 1, name: index === 0 ? name : null, text: first + text + last, kind: 'text' })
  })
}

/** Cuts a text into lines: after each line end, and where one has no room left. By code points: no pair is torn apart. */
function cut(text: string): string[] {
  const mayHide = hides(text)
  const lines: string[] = []
  let [from, at, room] = [0, 0, LINE]
  for (const character of text) {
    room -= mayHide && hides(character) ? ROOM_OF_A_NAME : 1
    if (room < 0) {
      lines.push(text.slice(from, at))
      ;[from, room] = [at, LINE - 1]
    }
    at += character.length
    if (character === '\n') {
      lines.push(text.slice(from, at))
      ;[from, room] = [at, LINE]
    }
  }
  lines.push(text.slice(from))
  return lines
}

/** Quotes as JSON does, but leaves what cannot be seen for `Text` to name. */
function quoted(text: string): string {
  return `"${text.replace(/["\\]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\t', '\\t')}"`
}
