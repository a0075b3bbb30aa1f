import { useInfiniteQuery, useQuery, useQueryClient } from '@tanstack/react-query'
import { ShieldAlert, ShieldCheck } from 'lucide-react'
import { useState } from 'react'
import { api, told } from '../../api/client'
import { approvalsOf, checkpoints as askCheckpoints, report as askReport, type Checkpoint, type Report, type Run, type Story } from '../../api/runs'
import { Acting } from '../../parts/Acting'
import { Command } from '../../parts/Command'
import { Section } from '../../parts/Fact'
import { forPython, forShell } from '../../parts/quoting'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { When } from '../../parts/When'
import { HowItStands } from './HowItStands'
import { nextAction, standingOf } from './standing'

/** Shows what a resumed run would find, and how to resume it; the agent itself runs elsewhere. */
export function Resume({ run, story, onClose }: { run: Run; story: Story; onClose: () => void }) {
  const report = useQuery(askReport(run.id))
  const saved = useInfiniteQuery(askCheckpoints(run.id)).data?.pages.flatMap((page) => page.checkpoints) ?? []
  const approvals = useInfiniteQuery(approvalsOf(run.id)).data?.pages.flatMap((page) => page.approvals) ?? []
  const [chosen, setChosen] = useState('')
  const checkpoint = saved.find((one) => one.id === chosen) ?? saved[0]
  const questions = useQueryClient()
  const needsForce = run.status === 'manual_review_required'
  const standing = standingOf(story, approvals)
  const act = async () => {
    const body = { force: needsForce, lease_s: 30, ...(chosen && { checkpoint: chosen }) }
    const resumed = await told(api.POST('/v1/runs/{run_id}/resume', { params: { path: { run_id: run.id } }, body }))
    await told(api.POST('/v1/runs/{run_id}/release', { params: { path: { run_id: run.id } }, body: { token: resumed.token } }))
    await questions.invalidateQueries({ queryKey: ['runs', run.id] })
    onClose()
  }
  const holds = report.data?.checkpoints.find((one) => one.checkpoint === checkpoint?.id)?.is_valid ?? report.data?.is_valid ?? false
  const isReady = report.isSuccess && holds
  return (
    <Acting needs={needsForce ? [] : ['agent']} title="Resume this run" verb="Open it for whoever resumes" wide isReady={isReady} act={act} onClose={onClose}>
      {report.error ? <Trouble error={report.error} /> : <Seal checkpoint={checkpoint} report={report.data} />}
      {saved.length > 1 && <Choice of={saved} chosen={checkpoint?.id ?? ''} onChoose={setChosen} />}
      <HowItStands of={standing} next={nextAction(standing, checkpoint?.suggested, story.current_step)} />
      <Section title="Resume it where the agent runs">
        <Command name="in a terminal">{`indelible runs resume ${forShell(run.id)}${chosen ? ` --from ${forShell(chosen)}` : ''}`}</Command>
        <Command name="in Python">{`run = ledger.resume_run(${forPython(run.id)}${chosen ? `, checkpoint=${forPython(chosen)}` : ''})\nwith run:\n    ...  # the same calls as before: what was done replays`}</Command>
      </Section>
      <p className="text-muted">
        The button records that the run is resumed, by you, and lets go of it at once: it is active, nobody drives it, and any worker may take it over. It runs nothing by itself.
        {needsForce && ' It was set aside for a person to look at, so this takes the scope admin.'}
      </p>
    </Acting>
  )
}

function Seal({ checkpoint, report }: { checkpoint: Checkpoint | undefined; report: Report | undefined }) {
  if (!report) return <p className="text-muted">Checking the seal …</p>
  const seal = report.checkpoints.find((one) => one.checkpoint === checkpoint?.id)
  const isValid = seal?.is_valid ?? report.is_valid
  const why = seal?.why ?? report.not_valid.join('; ')
  const [Icon, tone] = isValid ? [ShieldCheck, 'bg-good-ground text-good'] : [ShieldAlert, 'bg-bad-ground text-bad']
  return (
    <p role="status" className={`flex items-start gap-2 rounded-lg p-3 ${tone}`}>
      <Icon size={17} aria-hidden className="mt-0.5 shrink-0" />
      <span>
        {isValid
          ? checkpoint
            ? <>The checkpoint at event {checkpoint.at + 1}, <When at={checkpoint.created_at} />, is what was sealed, and the run's record holds.</>
            : 'There is no checkpoint; the record of the run holds, and that is enough to go on.'
          : <>It cannot be resumed from here: <Text>{why}</Text>. {checkpoint ? 'Choose an older checkpoint, and verify the run.' : 'Verify the run.'}</>}
      </span>
    </p>
  )
}

function Choice({ of, chosen, onChoose }: { of: readonly Checkpoint[]; chosen: string; onChoose: (id: string) => void }) {
  return (
    <label className="block space-y-1">
      <span className="font-medium">From the checkpoint</span>
      <select value={chosen} onChange={(event) => onChoose(event.target.value)} className="w-full rounded-md border border-line bg-paper p-2">
        {of.map((one, index) => <option key={one.id} value={one.id}>event {one.at + 1}, {one.reason.replaceAll('_', ' ')}{one.has_state ? '' : ', without state'}{index === 0 ? ' (newest)' : ''}</option>)}
      </select>
    </label>
  )
}
