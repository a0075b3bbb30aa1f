import { useState } from 'react'
import { Button } from '../../parts/Button'
import { Copy } from '../../parts/Copy'
import { save } from '../../parts/saving'
import { Text } from '../../parts/Text'
import { utf8 } from '../../record/bytes'

/** Is how much is drawn at once: the whole can be saved. */
const MOST_SHOWN = 20_000

/** Shows, when asked, the very text that the digest is of. */
export function Bytes({ name, text }: { name: string; text: string }) {
  const [isOpen, setOpen] = useState(false)
  return (
    <details className="text-sm" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary className="cursor-pointer text-muted">Canonical bytes, as they are hashed</summary>
      {isOpen && (
        <div className="mt-2 space-y-2">
          <pre tabIndex={0} aria-label="Canonical bytes of the arguments" className="max-h-60 overflow-y-auto rounded-lg bg-sunken p-3 text-[13px] break-all whitespace-pre-wrap">
            <Text>{text.slice(0, MOST_SHOWN)}</Text>
          </pre>
          <div className="flex flex-wrap items-center gap-3 text-muted">
            <span>{utf8(text).length.toLocaleString('en')} bytes, JSON by RFC 8785{text.length > MOST_SHOWN && `; the first ${MOST_SHOWN.toLocaleString('en')} characters are shown`}</span>
            <Copy text={text} label="Copy the canonical bytes" />
            <Button onClick={() => save(`${name}.json`, text)}>Save them</Button>
          </div>
        </div>
      )}
    </details>
  )
}
