import { Filter, X } from 'lucide-react'
import { useEffect, useId, useRef, useState } from 'react'
import { useHotkeys } from '../shell/hotkeys'
import { flawOf } from './filter'
import { Text } from './Text'

/** Is how long somebody has to stop typing until their filter is asked for. */
const REST = 500

type Props = {
  q: string
  onChange: (q: string) => void
  /** What the server said to this filter. */
  error: unknown
  example: string
}

/** Takes a filter, and underlines what of it cannot be read. */
export function FilterBox({ q, onChange, error, example }: Props) {
  const [text, setText] = useState(q)
  const box = useRef<HTMLInputElement>(null)
  const said = useId()
  const flaw = flawOf(error, q)
  useEffect(() => setText(q), [q])
  useEffect(() => {
    if (text === q) return
    const rest = setTimeout(() => onChange(text), REST)
    return () => clearTimeout(rest)
  }, [text, q, onChange])
  useHotkeys({ '/': () => box.current?.focus() })
  return (
    <search className="min-w-0 flex-1 basis-60 max-md:basis-40">
      <form
        className={`flex items-center gap-2 rounded-md border bg-paper px-2 focus-within:outline-2 focus-within:outline-accent ${flaw ? 'border-bad' : 'border-line'}`}
        onSubmit={(event) => {
          event.preventDefault()
          onChange(text)
        }}
      >
        <Filter size={14} aria-hidden className="shrink-0 text-muted" />
        <input
          ref={box}
          type="text"
          aria-label="Filter"
          placeholder={example}
          spellCheck={false}
          autoComplete="off"
          autoCapitalize="off"
          maxLength={2000}
          value={text}
          aria-invalid={flaw !== null}
          {...(flaw && { 'aria-describedby': said })}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === 'Escape') box.current?.blur()
          }}
          className="min-w-0 flex-1 bg-transparent py-1.5 font-mono text-[13px] outline-none placeholder:text-muted"
        />
        {text !== '' && (
          <button type="button" aria-label="Clear the filter" onClick={() => onChange('')} className="rounded p-0.5 text-muted hover:bg-raised">
            <X size={14} aria-hidden />
          </button>
        )}
      </form>
      {flaw && (
        <div id={said} role="alert" className="mt-1 space-y-0.5 text-sm">
          <p className="font-mono text-[13px] break-all">
            <Text>{flaw.before}</Text>
            <mark className="bg-bad-ground text-bad underline decoration-wavy underline-offset-4"><Text>{flaw.bad || ' '}</Text></mark>
            <Text>{flaw.after}</Text>
          </p>
          <p className="text-bad"><Text>{flaw.why}</Text></p>
        </div>
      )}
    </search>
  )
}
