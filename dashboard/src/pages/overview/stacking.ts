/** Stacks counts of groups over time: pure, so that it can be tested. */

export type Counted = { readonly at: string | null; readonly group: string | null; readonly count: number | null }
export type Segment = { readonly group: string; readonly count: number; readonly from: number }
export type Bar = { readonly at: string; readonly segments: readonly Segment[]; readonly total: number }

/** Gives one bar for each moment there is, in their order, with the groups stacked in one order. */
export function stacked(figures: readonly Counted[]): { bars: Bar[]; groups: string[]; highest: number } {
  const groups = [...new Set(figures.map((one) => one.group ?? 'all'))].sort()
  const byMoment = new Map<string, Map<string, number>>()
  for (const one of figures) {
    if (one.at === null) continue
    const counts = byMoment.get(one.at) ?? new Map<string, number>()
    const group = one.group ?? 'all'
    counts.set(group, (counts.get(group) ?? 0) + (one.count ?? 0))
    byMoment.set(one.at, counts)
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
