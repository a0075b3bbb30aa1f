import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useState } from 'react'
import { runsPage } from '../../api/runs'
import { forFilter } from '../../parts/quoting'
import { Status } from '../../parts/Status'
import { Text } from '../../parts/Text'

/** Is how many are shown; the list of runs has all of them. */
const MOST = 20
/** Is how deep a tree of delegations is drawn. */
const DEEPEST = 3

/** Shows them when asked: to find them, the server looks through many runs. */
export function DelegatedOnDemand({ by }: { by: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="text-sm" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="w-fit cursor-pointer text-muted">Runs it delegated to</summary>
      {isOpen && <div className="mt-1"><Delegated by={by} depth={0} /></div>}
    </details>
  )
}

/** Shows the runs that a run delegated to, and theirs, as a tree. */
function Delegated({ by, depth }: { by: string; depth: number }) {
  const { data } = useQuery({ queryKey: ['delegated', by], queryFn: () => runsPage({ q: `parent:${forFilter(by)}`, limit: MOST }) })
  if (!data) return <p className="text-muted">Looking …</p>
  if (data.runs.length === 0) return depth > 0 ? null : <p className="text-muted">{data.next === null ? 'It delegated nothing.' : 'None among the newest runs.'}</p>
  return (
    <ul aria-label={`Runs that ${by} delegated to`} className={`space-y-1 text-sm ${depth > 0 ? 'ml-5 border-l border-line pl-3' : ''}`}>
      {data.runs.map((run) => (
        <li key={run.id} className="space-y-1">
          <span className="flex flex-wrap items-center gap-2">
            <span className="text-muted">↳</span> <Link to="/runs/$runId" params={{ runId: run.id }}><Text>{run.id}</Text></Link> <Status is={run.status} /> <span className="text-muted">by <Text>{run.agent}</Text></span>
          </span>
          {depth + 1 < DEEPEST && <Delegated by={run.id} depth={depth + 1} />}
        </li>
      ))}
      {data.next !== null && <li><Link to="/runs" search={{ q: `parent:${forFilter(by)}` }}>all of them</Link></li>}
    </ul>
  )
}
