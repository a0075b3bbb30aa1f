/** What the page asks for its plots. */

import { queryOptions } from '@tanstack/react-query'
import { api, told } from './client'
import type { components, operations } from './schema'

export type Stats = components['schemas']['StatsShown']
export type Figure = components['schemas']['FigureShown']
export type StatsAsked = NonNullable<operations['stats_show_stats']['parameters']['query']>

export const stats = (asked: StatsAsked) =>
  queryOptions({
    queryKey: ['stats', asked],
    queryFn: () => told(api.GET('/v1/stats', { params: { query: asked } })),
    staleTime: 15_000,
    refetchInterval: 30_000,
  })
