import { useState, type FormEvent } from 'react'
import type { ApprovalView } from '../../api/asks'
import { Button } from '../../parts/Button'
import { save } from '../../parts/saving'
import { sha256, toHex, utf8 } from '../../record/bytes'

/** Is how many lines nobody can be asked to scroll through. */
export const LONG = 1000
/** Is how much of the hash has to be named: enough that nobody guesses it. */
const ENOUGH = 8

/** Lets a person read long arguments elsewhere: whoever names the hash of the file has the file that is asked about. */
export function ReadElsewhere({ of: { approval, args_json: text }, lines, onRead }: { of: ApprovalView; lines: number; onRead: () => void }) {
  const [named, setNamed] = useState('')
  const [said, setSaid] = useState('')
  const compare = async (event: FormEvent) => {
    event.preventDefault()
    const hash = toHex(await sha256(utf8(text)))
    const isIt = hash.startsWith(named.trim().toLowerCase()) && named.trim().length >= ENOUGH
    setSaid(isIt ? 'That is the file. You can approve it below.' : 'That is not the hash of these arguments.')
    if (isIt) onRead()
  }
  return (
    <details className="rounded-lg border border-line px-3 py-2 text-sm">
      <summary className="cursor-pointer">{lines.toLocaleString('en')} lines are too many to scroll through? Read them elsewhere.</summary>
      <form onSubmit={(event) => void compare(event)} className="mt-2 space-y-2">
        <p>Save the exact bytes and read them with a program that you trust. Then name the file’s SHA-256, as <code>sha256sum</code> prints it; {ENOUGH} characters are enough.</p>
        <div className="flex flex-wrap items-end gap-2">
          <Button onClick={() => save(`${approval.id}.json`, text)}>Save the arguments</Button>
          <label className="min-w-0 flex-1 basis-60 space-y-1">
            <span className="block">SHA-256 of the file that you read</span>
            <input value={named} onChange={(event) => setNamed(event.target.value)} spellCheck={false} autoComplete="off" maxLength={64} className="w-full rounded-md border border-line bg-paper p-1.5 font-mono" />
          </label>
          <Button type="submit" disabled={named.trim().length < ENOUGH}>Compare</Button>
        </div>
        <p role="status" className="text-muted">{said}</p>
      </form>
    </details>
  )
}
