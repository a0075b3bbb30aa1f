import { useVirtualizer } from '@tanstack/react-virtual'
import { useEffect, useMemo, useRef } from 'react'
import { rowsOf, type Row } from './rows'
import { Text } from './Text'

const HEIGHT = 22
const TONES: Record<Row['kind'], string> = { text: 'text-good', number: 'text-accent', word: 'text-wait', bracket: 'text-muted' }

type Props = {
  value: unknown
  label: string
  /** Is told how many lines have been on screen so far, and how many there are. */
  onSeen?: (seen: number, all: number) => void
}

/** Shows all of a JSON value, however large, line by line; nothing is folded away or cut short. */
export function Json({ value, label, onSeen }: Props) {
  const rows = useMemo(() => rowsOf(value), [value])
  const pane = useRef<HTMLDivElement>(null)
  const lines = useVirtualizer({ count: rows.length, getScrollElement: () => pane.current, estimateSize: () => HEIGHT, overscan: 12 })
  useSeen(rows, lines.range, onSeen)
  return (
    <div ref={pane} tabIndex={0} role="region" aria-label={label} className="max-h-[45vh] overflow-auto rounded-lg bg-sunken font-mono text-[13px]">
      <div className="relative min-w-max" style={{ height: lines.getTotalSize() }}>
        {lines.getVirtualItems().map((item) => (
          <Line key={item.key} row={rows[item.index]!} top={item.start} />
        ))}
      </div>
    </div>
  )
}

function Line({ row, top }: { row: Row; top: number }) {
  return (
    <div className="absolute left-0 px-3 leading-[22px] whitespace-pre" style={{ top, height: HEIGHT, paddingLeft: 12 + row.depth * 18 }}>
      {row.name !== null && (
        <span className="text-ink">
          <Text>{String(row.name)}</Text>
          <span className="text-muted">: </span>
        </span>
      )}
      <span className={TONES[row.kind]}><Text>{row.text}</Text></span>
    </div>
  )
}

type Range = { startIndex: number; endIndex: number } | null

/** Keeps which lines have been on screen; each counts once. */
function useSeen(rows: Row[], range: Range, onSeen: Props['onSeen']): void {
  const seen = useRef({ rows, lines: new Uint8Array(rows.length), count: 0 })
  useEffect(() => {
    if (seen.current.rows !== rows) seen.current = { rows, lines: new Uint8Array(rows.length), count: 0 }
    const kept = seen.current
    for (let index = range?.startIndex ?? 0; range && index <= range.endIndex; index += 1) {
      if (kept.lines[index] === 0) {
        kept.lines[index] = 1
        kept.count += 1
      }
    }
    onSeen?.(kept.count, rows.length)
  }, [rows, range?.startIndex, range?.endIndex, onSeen])
}
