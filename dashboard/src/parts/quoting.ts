/** Texts from outside as parts of commands that somebody copies: nothing in them means anything, and nothing hides. */

import { pieces } from './visible'

const isHidden = (text: string) => pieces(text).some((piece) => piece.hidden) || /[\n\t]/.test(text)

/** Escapes what cannot be seen, as both bash and Python read it. */
function escaped(text: string): string {
  return Array.from(text, (letter) => {
    if (!isHidden(letter)) return letter
    const code = letter.codePointAt(0)!
    return code > 0xffff ? `\\U${code.toString(16).padStart(8, '0')}` : `\\u${code.toString(16).padStart(4, '0')}`
  }).join('')
}

/** Quotes a text for a shell. */
export function forShell(text: string): string {
  if (/^[A-Za-z0-9_.:@%+,/-]+$/.test(text) && !text.startsWith('-')) return text
  if (!isHidden(text)) return `'${text.replaceAll("'", "'\\''")}'`
  return `$'${escaped(text.replace(/[\\']/g, '\\$&'))}'`
}

/** Quotes a text for Python. */
export function forPython(text: string): string {
  return `"${escaped(text.replace(/[\\"]/g, '\\$&'))}"`
}

/** Quotes a text for a filter, in which only quotes and backslashes mean anything then. */
export function forFilter(text: string): string {
  return `"${text.replace(/[\\"]/g, '\\$&')}"`
}

/** Gives the request that answers with one event, for a terminal that has a token of its own. */
export function curlFor(home: URL, runId: string, seq: number): string {
  const address = new URL('v1/events', home)
  address.search = new URLSearchParams({ run_id: runId, after: String(seq - 1), limit: '1' }).toString()
  return `curl -sS -H "Authorization: Bearer $INDELIBLE_TOKEN" ${forShell(address.href)}`
}
