import { describe, expect, it } from 'vitest'
import { mixesScripts, pieces } from './visible'

describe('what cannot be seen', () => {
  it('is told by its name, in its place', () => {
    expect(pieces('a\u202egnp.exe')).toEqual([
      { text: 'a', hidden: false },
      { text: 'RLO', hidden: true },
      { text: 'gnp.exe', hidden: false },
    ])
  })
  it.each([['\u001b[31m', 'ESC'], ['\u200b', 'ZWSP'], ['\u{e0041}', 'U+E0041'], ['\ud800', 'U+D800']])('shows %j', (text, name) => {
    expect(pieces(text)[0]).toEqual({ text: name, hidden: true })
  })
  it('leaves line ends, tabs and letters of all scripts alone', () => {
    expect(pieces('Zürich\n\t北京 👍')).toEqual([{ text: 'Zürich\n\t北京 👍', hidden: false }])
  })
  it('sees letters that look like others', () => {
    expect(mixesScripts('p\u0430ypal')).toBe(true)
    expect(mixesScripts('paypal Привет')).toBe(false)
  })
})
