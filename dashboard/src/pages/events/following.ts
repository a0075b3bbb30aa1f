/** Reads the end of the journal, and follows it. */

import { useQuery } from '@tanstack/react-query'
import { useEffect, useReducer } from 'react'
import type { Entry } from '../../api/asks'
import { api, HOME, Problem, told } from '../../api/client'
import { useLive } from '../../api/live'
import { changed, NOTHING, placeOf } from './tail'

const PAGE = 500
/** Says how far back the page looks at once: where a filter leaves most out, further. */
const windowOf = (q: string) => (q ? 5000 : PAGE)
const AGAIN = 3000

/** Gives the events after a place that a filter asks for, up to a place or to the end. */
async function between(after: number, until: number, q: string): Promise<Entry[]> {
  const found: Entry[] = []
  for (let place: number | null = after; place !== null && place < until; ) {
    const page: { events: Entry[]; next: number | null } = await told(api.GET('/v1/events', { params: { query: { after: place, limit: PAGE, ...(q && { q }) } } }))
    found.push(...page.events.filter((entry) => (placeOf(entry) ?? 0) <= until))
    place = page.next
  }
  return found
}

async function end(q: string): Promise<{ entries: Entry[]; from: number }> {
  const size = await told(api.GET('/v1/journal/head')).then((head) => head.size, (error: unknown) => {
    if (error instanceof Problem && error.status === 404) return 0
    throw error
  })
  const from = Math.max(0, size - windowOf(q))
  return { entries: await between(from - 1, Number.POSITIVE_INFINITY, q), from }
}

export function useTail(q: string) {
  const [tail, change] = useReducer(changed, NOTHING)
  const asked = useQuery({ queryKey: ['tail', q], queryFn: () => end(q), staleTime: Number.POSITIVE_INFINITY, gcTime: 0, refetchOnWindowFocus: false, retry: false })
  const isPaused = useLive() === 'paused'
  useEffect(() => {
    change({ is: 'begun', entries: asked.data?.entries ?? [], from: asked.data?.from ?? 0 })
  }, [asked.data])
  useEffect(() => {
    if (!asked.data || isPaused) return
    const last = placeOf(asked.data.entries.at(-1)) ?? asked.data.from - 1
    return listen(q, last, (entries) => change({ is: 'came', entries }))
  }, [asked.data, q, isPaused])
  const older = tail.from > 0 ? async () => {
    const from = Math.max(0, tail.from - windowOf(q))
    change({ is: 'older', entries: await between(from - 1, tail.from - 1, q), from })
  } : undefined
  return { tail, error: asked.error, isPending: asked.isPending, older, follow: (on: boolean) => change({ is: 'followed', on }) }
}

/** Hears of events after a place; many that come together are told together. */
function listen(q: string, after: number, tell: (entries: Entry[]) => void): () => void {
  let last = after
  let waiting: Entry[] = []
  let stream: EventSource | null = null
  let again: ReturnType<typeof setTimeout> | undefined
  const begin = () => {
    const address = new URL('v1/events/stream', HOME)
    address.search = new URLSearchParams({ after: String(last), ...(q && { q }) }).toString()
    stream = new EventSource(address)
    stream.onmessage = (message: MessageEvent<string>) => {
      last = Number(message.lastEventId)
      if (waiting.length === 0) {
        requestAnimationFrame(() => {
          tell(waiting)
          waiting = []
        })
      }
      waiting.push(JSON.parse(message.data) as Entry)
    }
    stream.onerror = () => {
      stream?.close()
      again = setTimeout(begin, AGAIN)
    }
  }
  begin()
  return () => {
    stream?.close()
    clearTimeout(again)
  }
}
