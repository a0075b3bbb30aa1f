import { useInfiniteQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { approvalsOf } from '../../../api/runs'
import { Button } from '../../../parts/Button'
import { Empty } from '../../../parts/Empty'
import { Status } from '../../../parts/Status'
import { Text } from '../../../parts/Text'
import { Trouble } from '../../../parts/Trouble'
import { When } from '../../../parts/When'

/** Shows what people were asked in a run, and what they said. */
export function Approvals({ runId }: { runId: string }) {
  const asked = useInfiniteQuery(approvalsOf(runId))
  const found = asked.data?.pages.flatMap((page) => page.approvals) ?? []
  if (asked.error) return <Trouble error={asked.error} onRetry={() => void asked.refetch()} />
  if (asked.isSuccess && found.length === 0) return <Empty title="Nobody was asked in this run" />
  return (
    <div className="space-y-3 p-4">
      <ul className="divide-y divide-line rounded-lg border border-line text-sm">
        {found.map((one) => (
          <li key={one.id} className="flex flex-wrap items-center gap-x-4 gap-y-1 px-3 py-2">
            <Status is={one.status} />
            <Link to="/inbox" search={{ tab: 'all', approval: one.id }}><Text>{one.tool}</Text></Link>
            <span className="text-muted">by the rule <Text>{one.rule}</Text></span>
            {one.votes.map((vote) => <span key={vote.by + vote.at}>{vote.is_approval ? 'approved' : 'denied'} by <Text>{vote.by}</Text></span>)}
            <span className="ml-auto text-muted">asked <When at={one.asked_at} /></span>
          </li>
        ))}
      </ul>
      {asked.hasNextPage && <Button onClick={() => void asked.fetchNextPage()}>Show older ones</Button>}
    </div>
  )
}
