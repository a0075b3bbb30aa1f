/** Speaks with the server this page came from, as the person who is signed in. */

import createClient, { type Middleware } from 'openapi-fetch'
import { exactly } from './exactly'
import type { paths } from './schema'

/** Where the page lives, with a slash at its end: the server may show us under any path. */
export const HOME = new URL('./', document.baseURI)

/** What went wrong, as the server tells it. */
export class Problem extends Error {
  constructor(
    readonly status: number,
    readonly type: string,
    readonly title: string,
    readonly detail: string,
    readonly more: Readonly<Record<string, unknown>> = {},
  ) {
    super(detail || title)
  }

  /** The last part of its type, as in `digest-mismatch`. */
  get kind(): string {
    return this.type.slice(this.type.lastIndexOf('/') + 1)
  }
}

let asked: Promise<string | null> | null = null

/** Gives the word that proves that a request comes from this page; null where there is no session that needs one. */
function antiForgery(): Promise<string | null> {
  asked ??= fetch(new URL('v1/me', HOME), { credentials: 'same-origin' }).then(async (answer) => {
    if (!answer.ok) throw new Error('nobody is signed in')
    return ((await answer.json()) as { csrf_token?: string | null }).csrf_token ?? null
  })
  return asked.catch(() => {
    asked = null // somebody may sign in
    return null
  })
}

const proving: Middleware = {
  async onRequest({ request }) {
    if (request.method === 'GET') return request
    const word = await antiForgery()
    if (word !== null) request.headers.set('X-CSRF-Token', word)
    return request
  },
  onResponse({ request, response }) {
    if (request.method !== 'GET' && response.status === 403) asked = null // another session may be there by now
  },
}

/** Lets no number be rounded that the server wrote out. */
const keepingDigits: Middleware = {
  async onResponse({ response }) {
    if (!response.ok || !response.headers.get('content-type')?.startsWith('application/json')) return undefined
    const headers = new Headers(response.headers)
    headers.delete('content-length') // it is of the bytes that came
    return new Response(exactly(await response.text()), { status: response.status, headers })
  },
}

export const api = createClient<paths, 'application/json'>({ baseUrl: HOME.href.replace(/\/$/, ''), credentials: 'same-origin' })
api.use(proving, keepingDigits)

type Answer<T> = { data?: T; error?: unknown; response: Response }

/** Gives what was answered, or throws the problem. */
export async function told<T>(asking: Promise<Answer<T>>): Promise<T> {
  let answer: Answer<T>
  try {
    answer = await asking
  } catch {
    throw new Problem(0, 'unreachable', 'The server does not answer', 'Is it running, and is the network up? We go on trying.')
  }
  if (answer.response.ok) return answer.data as T
  throw problemOf(answer.response, answer.error)
}

function problemOf(response: Response, body: unknown): Problem {
  const { type, title, detail, ...more } = (typeof body === 'object' && body !== null ? body : {}) as Record<string, unknown>
  return new Problem(
    response.status,
    typeof type === 'string' ? type : 'about:blank',
    typeof title === 'string' ? title : response.statusText || `Status ${response.status}`,
    typeof detail === 'string' ? detail : '',
    more,
  )
}
