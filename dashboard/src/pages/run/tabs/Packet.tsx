import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { api, told } from '../../../api/client'
import { useMay } from '../../../api/may'
import { approvalsOf, type RunStatus, type Story } from '../../../api/runs'
import { Button } from '../../../parts/Button'
import { Section } from '../../../parts/Fact'
import { Json } from '../../../parts/Json'
import { save } from '../../../parts/saving'
import { Trouble } from '../../../parts/Trouble'
import { HowItStands } from '../HowItStands'
import { nextAction, standingOf } from '../standing'

type Props = { runId: string; story: Story; status: RunStatus | null }

/** Shows what a resumed run is told, as it stands now, and makes the packet for another ledger. */
export function Packet({ runId, story, status }: Props) {
  const approvals = useInfiniteQuery(approvalsOf(runId)).data?.pages.flatMap((page) => page.approvals) ?? []
  const making = useMutation({ mutationFn: () => told(api.POST('/v1/runs/{run_id}/packet', { params: { path: { run_id: runId } } })) })
  const may = useMay(['agent'])
  const isOver = status === 'completed' || status === 'canceled'
  const standing = standingOf(story, approvals)
  return (
    <div className="max-w-4xl space-y-5 p-4 text-sm">
      <h2 className="sr-only">Resume packet</h2>
      <HowItStands of={standing} next={isOver ? `Nothing: it is ${status}.` : nextAction(standing, null, story.current_step)} />
      {status !== null && (
        <Section title="For another ledger">
          <p className="text-muted">The same, signed, as one file that another ledger takes over; nothing of it is done again there. That it was given is an event of this run.</p>
          <div className="flex flex-wrap gap-2">
            <Button look="main" disabled={making.isPending || !may} onClick={() => making.mutate()}>Make a packet</Button>
            {making.data && <Button onClick={() => save(`${runId}.packet`, JSON.stringify(making.data))}>Download it</Button>}
          </div>
          {!may && <p className="text-muted">It takes the scope agent or admin, which you do not have.</p>}
          {making.error && <Trouble error={making.error} />}
          {making.data && <Json value={making.data.packet} label="Resume packet" />}
        </Section>
      )}
    </div>
  )
}
