import { Link } from '@tanstack/react-router'
import type { EffectLine, Story } from '../../../api/runs'
import { Empty } from '../../../parts/Empty'
import { Status } from '../../../parts/Status'
import { Table, WHOLE_LINE, type Column } from '../../../parts/Table'
import { Text } from '../../../parts/Text'

/** Lists the effects of a run in the order in which they were opened. */
export function Effects({ of }: { of: Story }) {
  if (of.effects.length === 0) return <Empty title="No call was made in this run" />
  return <div className="flex h-full flex-col max-md:h-[70vh]"><Table label="Effects of this run" things={of.effects} columns={COLUMNS} more={undefined} /></div>
}

const COLUMNS: readonly Column<EffectLine>[] = [
  { name: 'status', width: '10rem', cell: (line) => <Status is={line.status} /> },
  { name: 'tool', width: 'minmax(8rem, 2fr)', cell: (line) => <Link to="/effects/$effectId" params={{ effectId: line.id }} className={`font-medium ${WHOLE_LINE}`}><Text>{line.tool}</Text></Link> },
  { name: 'side effect', width: 'minmax(6rem, 1fr)', cell: (line) => line.side_effect.replaceAll('_', ' ') },
  { name: 'attempts', width: '5rem', isMinor: true, cell: (line) => line.attempt },
  { name: 'opened at event', width: '8rem', isMinor: true, cell: (line) => line.opened_seq + 1 },
  { name: 'last event', width: '6rem', isMinor: true, cell: (line) => line.seq + 1 },
]
