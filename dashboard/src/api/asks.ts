/** What the page asks the server for: each question once, under the name by which it is asked again when things change. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, told } from './client'
import type { components } from './schema'

type Shape<Name extends keyof components['schemas']> = components['schemas'][Name]
export type Approval = Shape<'ApprovalShown'>
export type ApprovalView = Shape<'ApprovalViewShown'>
export type Effect = Shape<'EffectShown'>
export type Run = Shape<'RunShown'>
export type RunEvent = Shape<'RunEventShown'>
export type Difference = Shape<'DifferenceShown'>

export const PAGE = 100

export const me = queryOptions({
  queryKey: ['me'],
  queryFn: () => told(api.GET('/v1/me')),
  staleTime: 60_000,
})

export const approvals = (status: Approval['status'] | undefined, q = '') =>
  infiniteQueryOptions({
    queryKey: ['approvals', status ?? 'all', q],
    queryFn: ({ pageParam }) =>
      told(api.GET('/v1/approvals', { params: { query: { limit: PAGE, ...(status && { status }), ...(q && { q }), ...(pageParam && { before: pageParam }) } } })),
    initialPageParam: '',
    getNextPageParam: (page) => page.next,
  })

export const approval = (id: string) =>
  queryOptions({
    queryKey: ['approvals', 'one', id],
    queryFn: () => told(api.GET('/v1/approvals/{approval_id}', { params: { path: { approval_id: id } } })),
  })

export const lastEvents = (runId: string, seq: number | null, count: number) =>
  queryOptions({
    queryKey: ['runs', runId, 'last-events', seq, count],
    queryFn: () =>
      told(
        api.GET('/v1/runs/{run_id}/events', {
          params: { path: { run_id: runId }, query: { after: Math.max(-1, (seq ?? 0) - count), limit: count } },
        }),
      ),
  })

export const run = (runId: string) =>
  queryOptions({
    queryKey: ['runs', runId],
    queryFn: () => told(api.GET('/v1/runs/{run_id}', { params: { path: { run_id: runId } } })),
  })

export type Entry = Shape<'EventShown'>

export const journalHead = queryOptions({
  queryKey: ['journal', 'head'],
  queryFn: () => told(api.GET('/v1/journal/head')),
  retry: false,
  refetchInterval: 10_000,
})

/** Gives the journal's entries from one of them on. */
export const journalEntries = (from: number) =>
  infiniteQueryOptions({
    queryKey: ['journal', 'entries', from],
    queryFn: ({ pageParam }) => told(api.GET('/v1/journal/entries', { params: { query: { after: pageParam, limit: PAGE } } })),
    initialPageParam: from - 1,
    getNextPageParam: (page) => page.next,
  })
