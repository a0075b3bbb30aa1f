import { useState } from 'react'
import { proveIncluded, type Proven } from '../record/inclusion'
import { Text } from './Text'

/** Proves here, when asked, that an event is in the journal that was signed. */
export function Prove({ runId, seq, hash }: { runId: string; seq: number; hash: string }) {
  const [proven, setProven] = useState<Proven | 'asking' | null>(null)
  const prove = () => {
    setProven('asking')
    proveIncluded(runId, seq, hash).then(setProven, (error: unknown) => setProven({ holds: false, why: error instanceof Error ? error.message : String(error) }))
  }
  if (proven === null) return <button type="button" className="underline" onClick={prove}>prove</button>
  return (
    <span role="status">
      {proven === 'asking' ? 'asking …' : proven.holds ? <span className="text-good">in the signed tree of {proven.size.toLocaleString('en')}{proven.isFirst && ', by the key that the server names'}</span> : <span className="text-bad"><Text>{proven.why}</Text></span>}
    </span>
  )
}
