// @vitest-environment jsdom
import { afterEach, expect, it, vi } from 'vitest'

type Sent = { method: string; path: string; word: string | null }

/** Gives a client of its own, which remembers nothing of the tests before, and what it sends. */
async function client(word: string | null | 'nobody', statusOfPost = 201) {
  const sent: Sent[] = []
  vi.stubGlobal('fetch', async (input: Request | URL) => {
    const request = new Request(input)
    sent.push({ method: request.method, path: new URL(request.url).pathname, word: request.headers.get('X-CSRF-Token') })
    if (request.method === 'POST') return Response.json({}, { status: statusOfPost })
    return word === 'nobody' ? Response.json({}, { status: 401 }) : Response.json({ csrf_token: word })
  })
  vi.resetModules()
  const { api } = await import('./client')
  return { sent, cancel: () => api.POST('/v1/runs/{run_id}/cancel', { params: { path: { run_id: 'r' } }, body: { reason: 'x' } }), look: () => api.GET('/v1/me') }
}
afterEach(() => vi.unstubAllGlobals())

it('sends the word of its session along with what changes something, and asks for it once', async () => {
  const { sent, cancel, look } = await client('w0rd')
  await look()
  await cancel()
  await cancel()
  expect(sent.filter((one) => one.method === 'POST').map((one) => one.word)).toEqual(['w0rd', 'w0rd'])
  expect(sent.filter((one) => one.path === '/v1/me')).toHaveLength(2)
  expect(sent[0]!.word).toBeNull()
})
it('asks again after it was refused, for another session may be there by now', async () => {
  const { sent, cancel } = await client('w0rd', 403)
  await cancel()
  await cancel()
  expect(sent.filter((one) => one.path === '/v1/me')).toHaveLength(2)
})
it('sends nothing where there is no session, and does not take that for final', async () => {
  const { sent, cancel } = await client('nobody')
  await cancel()
  await cancel()
  expect(sent.map((one) => [one.method, one.word])).toEqual([['GET', null], ['POST', null], ['GET', null], ['POST', null]])
})
