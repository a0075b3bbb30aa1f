/** The stretches of time that the overview shows, and how finely. */

export const PERIODS = ['1h', '24h', '7d', '30d'] as const
export type Period = (typeof PERIODS)[number]

export const INTERVALS: Record<Period, string> = { '1h': '1m', '24h': '30m', '7d': '6h', '30d': '1d' }

export type OverviewSearch = { since?: Period }

export const overviewSearch = (search: Record<string, unknown>): OverviewSearch =>
  PERIODS.includes(search.since as Period) ? { since: search.since as Period } : {}
