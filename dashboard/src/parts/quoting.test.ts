import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { curlFor, forFilter, forPython, forShell } from './quoting'

const TEXTS = ['order-123', "it's $HOME `id` $(id)", 'a"b\\c', '-rf', '', 'line\nend\tx', 'a\u202egnp\u200b', '\u{e0041}x', '! * ? ~ #', 'both\\ and \'"\u202e\\n']

it.each(TEXTS)('a shell reads %j back as it is', (text) => {
  const env = { ...process.env, LC_ALL: 'C.UTF-8' }
  expect(execFileSync('bash', ['-c', `printf %s ${forShell(text)}`], { env }).toString()).toBe(text)
})
it.each(TEXTS)('Python would read %j back as it is', (text) => {
  const read = forPython(text).replace(/\\U([0-9a-f]{8})/g, (_, code: string) => String.fromCodePoint(Number.parseInt(code, 16)))
  expect(JSON.parse(read)).toBe(text)
})
it('hides nothing in what is copied', () => {
  for (const quoted of [forShell('a\u202eb'), forPython('a\u202eb')]) expect(quoted).not.toContain('\u202e')
})
it('asks for one event, and holds no token', () => {
  expect(curlFor(new URL('https://h/x/'), "a'b&c", 4)).toBe(
    `curl -sS -H "Authorization: Bearer $INDELIBLE_TOKEN" 'https://h/x/v1/events?run_id=a%27b%26c&after=3&limit=1'`,
  )
})
it('lets a filter find exactly this text', () => {
  expect(forFilter('a "b" \\ c\nd')).toBe('"a \\"b\\" \\\\ c\nd"')
})
