/** Stacks counts of groups over time: pure, so that it can be tested. */

export type Counted = { readonly at: string | null; readonly group: string | null; readonly count: number | null }
export type Segment = { readonly group: string; readonly count: number; readonly from: number }
export type Bar = { readonly at: string; readonly segments: readonly Segment[]; readonly total: number }

export type Span = { readonly since: string; readonly until: string; readonly interval: string | null }

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86_400, w: 604_800 }

/** Lists the beginnings of all stretches in a period, those in which nothing happened too: time has no gaps. */
export function stretches({ since, until, interval }: Span): string[] {
  const match = /^([0-9]+)([smhdw])$/.exec(interval ?? '')
  if (!match) return []
  const length = Number(match[1]) * UNITS[match[2]!]! * 1000
  const found: string[] = []
  for (let at = Math.floor(Date.parse(since) / length) * length; at < Date.parse(until); at += length) found.push(new Date(at).toISOString())
  return found
}

/** Gives one bar for each moment, in their order, with the groups stacked in one order. */
export function stacked(figures: readonly Counted[], moments: readonly string[] = []): { bars: Bar[]; groups: string[]; highest: number } {
  const groups = [...new Set(figures.map((one) => one.group ?? 'all'))].sort()
  const byMoment = new Map<string, Map<string, number>>(figures.length === 0 ? [] : moments.map((at) => [at, new Map<string, number>()]))
  for (const one of figures) {
    if (one.at === null) continue
    const at = new Date(one.at).toISOString() // one way to write each moment
    const counts = byMoment.get(at) ?? new Map<string, number>()
    const group = one.group ?? 'all'
    counts.set(group, (counts.get(group) ?? 0) + (one.count ?? 0))
    byMoment.set(at, counts)
  }
  const bars = [...byMoment].sort(([one], [other]) => (one < other ? -1 : 1)).map(([at, counts]) => barOf(at, counts, groups))
  return { bars, groups, highest: Math.max(1, ...bars.map((bar) => bar.total)) }
}

function barOf(at: string, counts: Map<string, number>, groups: string[]): Bar {
  let from = 0
  const segments: Segment[] = []
  for (const group of groups) {
    const count = counts.get(group) ?? 0
    if (count > 0) segments.push({ group, count, from })
    from += count
  }
  return { at, segments, total: from }
}

/** Adds up a group's counts. */
export function totals(figures: readonly Counted[]): [string, number][] {
  const sums = new Map<string, number>()
  for (const one of figures) sums.set(one.group ?? 'all', (sums.get(one.group ?? 'all') ?? 0) + (one.count ?? 0))
  return [...sums].sort(([, one], [, other]) => other - one)
}
