/** What the page asks about runs. */

import { infiniteQueryOptions, queryOptions } from '@tanstack/react-query'
import { api, told } from './client'
import type { components } from './schema'

type Shape<Name extends keyof components['schemas']> = components['schemas'][Name]
export type Run = Shape<'RunShown'>
export type RunStatus = Run['status']
export type RunEvent = Shape<'RunEventShown'>
export type Story = Shape<'Story'>
export type EffectLine = Shape<'EffectLineShown'>
export type Checkpoint = Shape<'CheckpointShown'>
export type CheckpointCompared = Shape<'CheckpointCompared'>
export type Report = Shape<'Report'>

/** Gives a page of runs; with a filter it may hold few or none while there are more. */
export function runsPage(asked: { status?: RunStatus | undefined; q: string; before?: string | undefined; limit: number }) {
  const { status, q, before, limit } = asked
  return told(api.GET('/v1/runs', { params: { query: { limit, ...(status && { status }), ...(q && { q }), ...(before && { before }) } } }))
}

/** Gives what a run's events tell. */
export const story = (runId: string) =>
  queryOptions({
    queryKey: ['runs', runId, 'story'],
    queryFn: () => told(api.GET('/v1/runs/{run_id}/story', { params: { path: { run_id: runId } } })),
  })

/** Gives the same for a line of a list, which is asked for again when the run moves on. */
export const storyOfLine = (runId: string) =>
  queryOptions({
    queryKey: ['stories', runId],
    queryFn: () => told(api.GET('/v1/runs/{run_id}/story', { params: { path: { run_id: runId } } })),
    staleTime: 60_000,
    gcTime: 60_000,
    retry: false,
  })

const EVENTS = 200

/** Gives a run's events in their order. They never change, so there is always a next page: what happens from now on. */
export const runEvents = (runId: string) =>
  infiniteQueryOptions({
    queryKey: ['events-of', runId],
    queryFn: ({ pageParam }) =>
      told(api.GET('/v1/runs/{run_id}/events', { params: { path: { run_id: runId }, query: { after: pageParam, limit: EVENTS } } })),
    initialPageParam: -1,
    getNextPageParam: (_, pages) => pages.findLast((page) => page.events.length > 0)?.events.at(-1)?.seq ?? -1,
    staleTime: Number.POSITIVE_INFINITY,
    refetchOnWindowFocus: false,
  })

export const checkpoints = (runId: string) =>
  infiniteQueryOptions({
    queryKey: ['runs', runId, 'checkpoints'],
    queryFn: ({ pageParam }) =>
      told(api.GET('/v1/runs/{run_id}/checkpoints', { params: { path: { run_id: runId }, query: { limit: 100, ...(pageParam && { before: pageParam }) } } })),
    initialPageParam: '',
    getNextPageParam: (page) => page.next,
  })

/** Gives what an agent saved in a checkpoint, and what is different in another one. It never changes, but may be erased. */
export const savedIn = (runId: string, checkpointId: string, other: string | undefined) =>
  queryOptions({
    queryKey: ['runs', runId, 'saved', checkpointId, other ?? ''],
    queryFn: () =>
      told(api.GET('/v1/runs/{run_id}/checkpoints/{checkpoint_id}', { params: { path: { run_id: runId, checkpoint_id: checkpointId }, query: other ? { other } : {} } })),
  })

export const approvalsOf = (runId: string) =>
  infiniteQueryOptions({
    queryKey: ['approvals', 'of', runId],
    queryFn: ({ pageParam }) =>
      told(api.GET('/v1/approvals', { params: { query: { run_id: runId, limit: 100, ...(pageParam && { before: pageParam }) } } })),
    initialPageParam: '',
    getNextPageParam: (page) => page.next,
  })

/** Asks the server whether a run's record and its checkpoints hold. */
export const report = (runId: string) =>
  queryOptions({
    queryKey: ['runs', runId, 'report'],
    queryFn: () => told(api.POST('/v1/runs/{run_id}/verify', { params: { path: { run_id: runId } } })),
  })
