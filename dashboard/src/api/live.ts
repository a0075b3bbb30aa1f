/** Follows the journal as it grows, and lets the page ask again for what changed: nobody has to reload. */

import type { QueryClient } from '@tanstack/react-query'
import { useEffect, useRef, useSyncExternalStore } from 'react'
import { api, HOME, told } from './client'

export type Live = 'joining' | 'live' | 'paused' | 'lost'

let state: Live = 'joining'
const listeners = new Set<() => void>()

function become(next: Live): void {
  if (state === next) return
  state = next
  for (const each of listeners) each()
}

/** Says whether news arrive. */
export function useLive(): Live {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    () => state,
  )
}

let wanted = true
const wishes = new Set<() => void>()

/** Stops the news, or lets them come again from where they stopped. */
export function setLive(on: boolean): void {
  wanted = on
  for (const each of wishes) each()
}

/** Is the least time between two questions for the same things: a burst of events is one change for a reader. */
const BREATH = 400
const LOOK_AGAIN = 3000

/** Is one event as the stream tells it, as far as the page looks at it. */
export type News = { readonly type: string; readonly run_id: string; readonly effect_id: string | null }

/** Which questions an event makes stale: those about its run and its effect, and lists that may hold them. */
export function staleAfter({ type, run_id, effect_id }: News): string[][] {
  const stale = [['runs', run_id], ['stories', run_id], ['journal']]
  if (effect_id !== null) stale.push(['effects', effect_id])
  if (/approv|denied|vote|grant|delegat|expired|escalat|edited/.test(type) || /tool_call|effect|settled|doubt/.test(type)) stale.push(['approvals'])
  if (/policy/.test(type)) stale.push(['policy'])
  return stale
}

const ears = new Set<(news: News) => void>()

/** Tells a part of the page of each event as it comes. */
export function useHeard(listener: (news: News) => void): void {
  const latest = useRef(listener)
  latest.current = listener
  useEffect(() => {
    const ear = (news: News) => latest.current(news)
    ears.add(ear)
    return () => void ears.delete(ear)
  }, [])
}

/** Keeps the page fresh as long as it is shown. */
export function useNews(questions: QueryClient): void {
  useEffect(() => follow(questions), [questions])
}

function follow(questions: QueryClient): () => void {
  let stream: EventSource | null = null
  let waiting: ReturnType<typeof setTimeout> | undefined
  let last: number | null = null
  let ended = false
  const stale = new Map<string, string[]>()

  const ask = () => {
    waiting = undefined
    for (const key of stale.values()) void questions.invalidateQueries({ queryKey: key })
    stale.clear()
  }
  const heard = (message: MessageEvent<string>) => {
    last = Number(message.lastEventId)
    const news = JSON.parse(message.data) as News
    for (const ear of ears) ear(news)
    for (const key of staleAfter(news)) stale.set(JSON.stringify(key), key)
    waiting ??= setTimeout(ask, BREATH)
  }
  const begin = async () => {
    if (ended || stream) return
    last ??= await told(api.GET('/v1/journal/head')).then((head) => head.size - 1, () => -1)
    if (ended || !wanted) return
    const address = new URL('v1/events/stream', HOME)
    address.searchParams.set('after', String(last))
    stream = new EventSource(address)
    stream.onopen = () => become('live')
    stream.onmessage = heard
    stream.onerror = () => {
      become('lost')
      stream?.close()
      stream = null
      setTimeout(() => void begin(), LOOK_AGAIN)
    }
  }
  const wish = () => {
    if (wanted) {
      if (stale.size > 0) waiting ??= setTimeout(ask, BREATH)
      return void begin()
    }
    stream?.close()
    stream = null
    clearTimeout(waiting) // what was heard of already is asked for when the news come again
    waiting = undefined
    become('paused')
  }
  wishes.add(wish)
  wish()
  return () => {
    ended = true
    wishes.delete(wish)
    stream?.close()
    clearTimeout(waiting)
  }
}
