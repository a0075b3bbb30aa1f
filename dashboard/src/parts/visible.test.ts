import { describe, expect, it } from 'vitest'
import { hides, pieces, plainly } from './visible'

describe('what cannot be seen', () => {
  it('is told by its name, in its place', () => {
    expect(pieces('a\u202egnp.exe')).toEqual([
      { text: 'a', hidden: false },
      { text: 'RLO', hidden: true },
      { text: 'gnp.exe', hidden: false },
    ])
    expect(plainly('a\u202egnp.exe')).toBe('a[RLO]gnp.exe')
  })
  it.each([
    ['\u0000', 'NUL'], ['\u001b[31m', 'ESC'], ['\r', 'CR'], ['\u0085', 'U+0085'], ['\u200b', 'ZWSP'], ['\u2028', 'U+2028'],
    ['\u{e0041}', 'U+E0041'], ['\u{e0101}', 'U+E0101'], ['\ufe0f', 'U+FE0F'], ['\ud800', 'U+D800'], ['\u3164', 'U+3164'],
    ['\u2800', 'U+2800'], ['\u00a0', 'NBSP'], ['\u2003', 'U+2003'], ['\u3000', 'U+3000'], ['\u{1d173}', 'U+1D173'],
  ])('shows %j', (text, name) => {
    expect(pieces(text)[0]).toEqual({ text: name, hidden: true })
    expect(hides(`so ${text}`)).toBe(true)
  })
  it('names marks that are heaped on a letter, but not those that languages use', () => {
    expect(plainly(`e${'\u0301'.repeat(6)}`)).toBe(`e${'\u0301'.repeat(4)}[U+0301][U+0301]`)
    expect(hides('é שָׁלוֹם ไม้ ཧཱུྃ')).toBe(false)
  })
  it('leaves line ends, tabs, spaces and letters of all scripts alone', () => {
    expect(pieces('Zürich\n\t北京 👍')).toEqual([{ text: 'Zürich\n\t北京 👍', hidden: false }])
    expect(hides('Zürich\n\t北京 👍')).toBe(false)
  })
})
