/** A list that is read page by page, and in which single lines change as news come: nothing is read twice for that. */

import { useInfiniteQuery, useQueryClient, type InfiniteData } from '@tanstack/react-query'
import { useEffect, useMemo, useRef } from 'react'
import { useHeard, type News } from './live'
import { byId, placed, type Order, type Page } from './placing'

const BREATH = 500
/** Is how many single things are asked for in one breath; the others wait for the next. */
const AT_ONCE = 8

type Asking<Thing> = {
  /** What is asked for: a list with another name is another list. */
  name: readonly (string | undefined)[]
  page: (before: string) => Promise<Page<Thing>>
  /** Which thing an event is about, and how to ask whether it belongs into this list. */
  about: (news: News) => { id: string; ask: () => Promise<Thing | null> } | null
  isBefore?: Order<Thing>
}

export function useEndless<Thing extends { readonly id: string }>({ name, page, about, isBefore = byId }: Asking<Thing>) {
  const queryKey = ['list', ...name]
  const asked = useInfiniteQuery({
    queryKey,
    queryFn: ({ pageParam }) => page(pageParam),
    initialPageParam: '',
    getNextPageParam: (last) => last.next,
    staleTime: 30_000,
    refetchOnWindowFocus: false,
  })
  useSingleNews(queryKey, about, isBefore)
  const things = useMemo(() => asked.data?.pages.flatMap((one) => one.things) ?? [], [asked.data])
  return { ...asked, things }
}

function useSingleNews<Thing extends { readonly id: string }>(queryKey: readonly unknown[], about: Asking<Thing>['about'], isBefore: Order<Thing>): void {
  const questions = useQueryClient()
  const waiting = useRef(new Map<string, () => Promise<Thing | null>>())
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined)
  const list = JSON.stringify(queryKey)
  useEffect(() => {
    const [asks] = [waiting.current]
    return () => {
      clearTimeout(timer.current)
      timer.current = undefined
      asks.clear()
    }
  }, [list])
  const look = async () => {
    const now = [...waiting.current].slice(0, AT_ONCE)
    for (const [id] of now) waiting.current.delete(id)
    await Promise.all(now.map(([id, ask]) => ask().then((thing) => put(id, thing), () => undefined))) // the next event asks again
    timer.current = waiting.current.size > 0 ? setTimeout(() => void look(), BREATH) : undefined
  }
  const put = (id: string, thing: Thing | null) =>
    questions.setQueryData<InfiniteData<Page<Thing>, string>>(queryKey, (kept) => kept && { ...kept, pages: placed(kept.pages, id, thing, isBefore) })
  useHeard((news) => {
    const one = about(news)
    if (!one) return
    waiting.current.set(one.id, one.ask)
    timer.current ??= setTimeout(() => void look(), BREATH)
  })
}
