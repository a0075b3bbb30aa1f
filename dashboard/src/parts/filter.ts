/** Where in a filter the server found something that it cannot read. */

import { Problem } from '../api/client'

export type Marked = { readonly before: string; readonly bad: string; readonly after: string }

/** Cuts a text around what is wrong; columns count from 1, by characters and not by halves of them. */
export function marked(text: string, column: number, length: number): Marked {
  const letters = [...text]
  const from = Math.min(Math.max(0, column - 1), letters.length)
  const to = Math.min(letters.length, from + Math.max(1, length))
  return { before: letters.slice(0, from).join(''), bad: letters.slice(from, to).join(''), after: letters.slice(to).join('') }
}

/** Gives what is wrong with a filter, if that is the problem. */
export function flawOf(error: unknown, text: string): (Marked & { readonly why: string }) | null {
  if (!(error instanceof Problem) || error.kind !== 'bad-filter') return null
  const [column, length] = [Number(error.more.column ?? 1), Number(error.more.length ?? 0)]
  return { ...marked(text, column, length), why: error.detail }
}
