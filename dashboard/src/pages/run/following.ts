/** Everything the page knows of one run, and how it keeps up with it. */

import { useInfiniteQuery, useQuery } from '@tanstack/react-query'
import { useEffect, useMemo } from 'react'
import { run as askRun } from '../../api/asks'
import { Problem } from '../../api/client'
import { runEvents, story as askStory } from '../../api/runs'

/** Is how many events are read by themselves; of longer runs the beginning is shown until somebody asks for more. */
const MOST = 10_000

/** Gives a run, and null for calls in the name of a run that nobody started. */
export function useRun(runId: string) {
  const asked = useQuery(askRun(runId))
  const isUnstarted = asked.error instanceof Problem && asked.error.status === 404
  return { run: asked.data ?? null, isUnstarted, error: isUnstarted ? null : asked.error, isPending: asked.isPending }
}

/** Gives a run's events in their order, and reads on as they happen. */
export function useRunEvents(runId: string) {
  const story = useQuery(askStory(runId))
  const asked = useInfiniteQuery(runEvents(runId))
  const events = useMemo(() => asked.data?.pages.flatMap((page) => page.events) ?? [], [asked.data])
  const hasMore = events.length < (story.data?.events ?? 0)
  const { isFetching, isError, fetchNextPage } = asked
  useEffect(() => {
    if (hasMore && !isFetching && !isError && events.length < MOST) void fetchNextPage()
  }, [hasMore, isFetching, isError, events.length, fetchNextPage])
  return { story: story.data, error: story.error ?? asked.error, events, hasMore, more: hasMore && !isFetching ? () => void fetchNextPage() : undefined }
}
