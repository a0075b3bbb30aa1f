import { useSettings } from '../shell/settings'
import { fromNow, span, useNow, written } from './time'

/** Shows how long ago something was, and exactly when on hover. */
export function When({ at }: { at: string }) {
  const now = useNow()
  const { zone } = useSettings()
  return (
    <time dateTime={at} title={written(at, zone)} className="whitespace-nowrap">
      {fromNow(at, now)}
    </time>
  )
}

/** Counts down to when something ends, and says so when it has. */
export function Countdown({ to }: { to: string }) {
  const now = useNow()
  const left = (Date.parse(to) - now) / 1000
  const tone = left < 300 ? 'text-bad' : left < 3600 ? 'text-warn' : 'text-muted'
  return (
    <time dateTime={to} className={`whitespace-nowrap ${tone}`}>
      {left > 0 ? `${span(left)} left` : 'expired'}
    </time>
  )
}
