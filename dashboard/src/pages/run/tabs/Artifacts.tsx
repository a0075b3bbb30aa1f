import { Link } from '@tanstack/react-router'
import type { Story } from '../../../api/runs'
import { Id } from '../../../parts/Copy'
import { Empty, Snippet } from '../../../parts/Empty'
import { Json } from '../../../parts/Json'
import { Text } from '../../../parts/Text'

/** Shows what a run made. Where it lies is said as a text: nothing here opens an address that a run named. */
export function Artifacts({ of }: { of: Story }) {
  if (of.artifacts.length === 0) {
    return <Empty title="It made nothing that it told of"><Snippet>{'run.artifact("receipt.pdf", content=b"...", step="receipt")'}</Snippet></Empty>
  }
  return (
    <ul className="m-4 divide-y divide-line rounded-lg border border-line text-sm">
      {of.artifacts.map((one) => (
        <li key={one.seq} className="space-y-2 px-3 py-2">
          <p className="flex flex-wrap items-center gap-x-4">
            <span className="font-medium break-all"><Text>{one.uri || 'without a name'}</Text></span>
            {one.content_hash && <Id length={24}>{one.content_hash}</Id>}
            <Link from="/runs/$runId" to="." search={{ tab: 'timeline', line: one.seq }} className="ml-auto">event {one.seq + 1}</Link>
          </p>
          {Object.keys(one.metadata).length > 0 && <Json value={one.metadata} label={`What is known of the artifact of event ${one.seq + 1}`} />}
        </li>
      ))}
    </ul>
  )
}
