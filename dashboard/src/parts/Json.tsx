import { useVirtualizer } from '@tanstack/react-virtual'
import { useCallback, useMemo, useRef } from 'react'
import { rowsOf, type Row } from './rows'
import { useSeen } from './seen'
import { Text } from './Text'

const HEIGHT = 22
const INDENT = 18
/** Is about how many letters have room side by side; how high a line really is, is measured when it is drawn. */
const USUAL = 100
/** Is how deep a row may lie before its depth is told as a number: there is no room for more. */
const DEEP = 10
const TONES: Record<Row['kind'], string> = { text: 'text-good', number: 'text-accent', word: 'text-wait', bracket: 'text-muted', name: 'text-ink' }

type Props = {
  value: unknown
  label: string
  /** Is told how many lines have been on screen so far, and how many there are. */
  onSeen?: (seen: number, all: number) => void
}

/** Shows all of a JSON value, however large, line by line; nothing is folded away, cut short or out of sight sideways. */
export function Json({ value, label, onSeen }: Props) {
  const rows = useMemo(() => rowsOf(value), [value])
  const pane = useRef<HTMLDivElement>(null)
  const lines = useVirtualizer({ count: rows.length, getScrollElement: () => pane.current, estimateSize: (index) => HEIGHT * Math.ceil((rows[index]!.text.length + 1) / USUAL), overscan: 12 })
  const { watch, firstUnseen } = useSeen(rows, onSeen)
  const { measureElement } = lines
  const keep = useCallback(
    (line: HTMLDivElement) => {
      measureElement(line)
      const leave = watch(line)
      return () => {
        leave()
        measureElement(null)
      }
    },
    [measureElement, watch],
  )
  return (
    <div className="space-y-1">
      <div ref={pane} tabIndex={0} role="region" aria-label={label} className="max-h-[45vh] overflow-x-hidden overflow-y-auto rounded-lg bg-sunken font-mono text-[13px]">
        <div className="relative" style={{ height: lines.getTotalSize() }}>
          {lines.getVirtualItems().map((item) => (
            <div key={item.key} ref={keep} data-index={item.index} className="absolute inset-x-0 overflow-clip" style={{ top: item.start }}>
              <Line row={rows[item.index]!} />
            </div>
          ))}
        </div>
      </div>
      {onSeen && firstUnseen() < rows.length && (
        <button type="button" className="text-sm text-accent underline" onClick={() => lines.scrollToIndex(firstUnseen(), { align: 'start' })}>
          Show the next lines that were not on screen
        </button>
      )}
    </div>
  )
}

function Line({ row }: { row: Row }) {
  return (
    <div className="pr-3 leading-[22px] break-all whitespace-break-spaces" style={{ paddingLeft: 12 + Math.min(row.depth, DEEP) * INDENT }}>
      {row.depth > DEEP && <span className="mr-2 rounded-sm bg-raised px-1 text-xs text-muted select-none" title={`${row.depth} levels deep`}>{row.depth}</span>}
      {row.name !== null && (
        <span className="text-ink">
          <Text>{row.name}</Text>
          <span className="text-muted">: </span>
        </span>
      )}
      <span className={TONES[row.kind]}><Text>{row.text}</Text></span>
    </div>
  )
}
