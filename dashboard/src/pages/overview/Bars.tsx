import { useId, type ReactNode } from 'react'
import { useSettings } from '../../shell/settings'
import { written, type Zone } from '../../parts/time'
import { Text } from '../../parts/Text'
import { plainly } from '../../parts/visible'
import { stacked, stretches, totals, type Counted, type Span } from './stacking'

const WIDTH = 720
const HEIGHT = 160
const FILLS: Record<string, string> = {
  succeeded: 'var(--good)',
  failed: 'var(--bad)',
  in_doubt: 'var(--warn)',
  requires_approval: 'var(--wait)',
  denied: 'color-mix(in srgb, var(--bad) 45%, var(--paper))',
  canceled: 'var(--line)',
  ready: 'color-mix(in srgb, var(--accent) 45%, var(--paper))',
  processing: 'var(--accent)',
}
const OTHERS = ['var(--accent)', 'var(--muted)', 'var(--wait)', 'var(--warn)', 'var(--good)']

const fillOf = (group: string, index: number) => (Object.hasOwn(FILLS, group) ? FILLS[group] : OTHERS[index % OTHERS.length])!

type Props = {
  title: string
  figures: readonly Counted[]
  span: Span
  words: string
  /** What is said where there is nothing to plot. */
  nothing?: string
  /** Names a group in the legend; it may lead somewhere. */
  naming?: (group: string) => ReactNode
}

/** A moment to the minute: seconds say nothing on an axis. */
const shortly = (at: string, zone: Zone) => written(new Date(Math.floor(Date.parse(at) / 60_000) * 60_000).toISOString(), zone).replace(/:00(\.000)?(?= |$)/, '')

/** Writes `30m` out. */
const inWords = (interval: string | null) => (interval ?? '').replace(/m$/, ' min').replace(/([hd])$/, ' $1')

const plain = (group: string) => <Text>{group.replaceAll('_', ' ')}</Text>

/** Plots counts over time, groups on top of one another. Each bar says its counts in words. */
export function Bars({ title, figures, span, words, nothing = 'Nothing in this time.', naming = plain }: Props) {
  const { bars, groups, highest } = stacked(figures, stretches(span))
  const { zone } = useSettings()
  const label = useId()
  const step = WIDTH / Math.max(bars.length, 1)
  return (
    <figure className="space-y-2">
      <figcaption id={label} className="text-sm font-semibold">{title}</figcaption>
      {bars.length === 0 ? (
        <p className="text-sm text-muted">{nothing}</p>
      ) : (
        <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} role="img" aria-labelledby={label} preserveAspectRatio="none" className="h-40 w-full rounded bg-raised">
          {bars.map((bar, index) => (
            <g key={bar.at}>
              <title>{plainly(`${written(bar.at, zone)}: ${bar.total === 0 ? 'nothing' : bar.segments.map((one) => `${one.count} ${one.group.replaceAll('_', ' ')}`).join(', ')}`)}</title>
              {bar.segments.map((one) => (
                <rect
                  key={one.group}
                  x={index * step + step * 0.1}
                  width={step * 0.8}
                  y={HEIGHT - ((one.from + one.count) / highest) * (HEIGHT - 8)}
                  height={(one.count / highest) * (HEIGHT - 8)}
                  fill={fillOf(one.group, groups.indexOf(one.group))}
                />
              ))}
            </g>
          ))}
        </svg>
      )}
      {bars.length > 0 && (
        <p className="flex flex-wrap justify-between gap-x-4 text-xs text-muted">
          <span>{shortly(bars[0]!.at, zone)}</span>
          <span>at most {highest.toLocaleString('en')} in {inWords(span.interval)}</span>
          <span>{shortly(span.until, zone)}</span>
        </p>
      )}
      <ul className="flex flex-wrap gap-x-4 gap-y-1 text-xs" aria-label={words}>
        {totals(figures).map(([group, count]) => (
          <li key={group} className="flex items-center gap-1.5">
            <svg width="10" height="10" aria-hidden><rect width="10" height="10" rx="2" fill={fillOf(group, groups.indexOf(group))} /></svg>
            {naming(group)} <strong>{count.toLocaleString('en')}</strong>
          </li>
        ))}
      </ul>
    </figure>
  )
}
