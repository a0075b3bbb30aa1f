/** What the page asks about effects. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import type { Effect } from './asks'
import { api, told } from './client'

export type EffectStatus = Effect['status']

/** Gives a page of effects, newest first. */
export function effectsPage(asked: { status?: EffectStatus | undefined; q: string; before?: string | undefined; limit: number; run?: string | undefined }) {
  const { status, q, before, limit, run } = asked
  return told(api.GET('/v1/effects', { params: { query: { limit, ...(status && { status }), ...(q && { q }), ...(before && { before }), ...(run && { run_id: run }) } } }))
}

export const effect = (id: string) =>
  queryOptions({
    queryKey: ['effects', id],
    queryFn: async () => (await told(api.GET('/v1/effects/{effect_id}', { params: { path: { effect_id: id } } }))).effect,
  })

/** Gives who got an effect's recorded answer. */
export const answeredBy = (id: string) =>
  queryOptions({
    queryKey: ['effects', id, 'answered'],
    queryFn: async () => (await told(api.GET('/v1/effects/{effect_id}/answered', { params: { path: { effect_id: id } } }))).callers,
  })

/** Gives the events that are about one effect, in their order. */
export const eventsAbout = (runId: string, effectId: string) =>
  infiniteQueryOptions({
    queryKey: ['effects', effectId, 'events'],
    queryFn: ({ pageParam }) =>
      told(api.GET('/v1/events', { params: { query: { run_id: runId, q: `effect:${effectId}`, after: pageParam, limit: 1000 } } })),
    initialPageParam: -1,
    getNextPageParam: (page) => page.next,
  })

/** Gives one event of a run with what it says beside its clear part. */
export const eventOf = (runId: string, seq: number) =>
  queryOptions({
    queryKey: ['event-of', runId, seq],
    queryFn: async () =>
      (await told(api.GET('/v1/runs/{run_id}/events', { params: { path: { run_id: runId }, query: { after: seq - 1, limit: 1 } } }))).events[0] ?? null,
    staleTime: Number.POSITIVE_INFINITY,
  })
