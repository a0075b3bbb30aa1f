import { Link } from '@tanstack/react-router'
import { Loader, ShieldAlert, ShieldCheck, ShieldQuestionMark } from 'lucide-react'
import { useEffect } from 'react'
import { useQuery } from '@tanstack/react-query'
import { journalHead } from '../api/asks'
import { fromNow, useNow } from '../parts/time'
import { check, useChecked, type Checked } from '../record/checking'

/** Says on every page whether the record holds, as verified in this browser. */
export function Integrity() {
  const checked = useChecked()
  const now = useNow()
  const head = useQuery(journalHead)
  useEffect(() => void check(false), [head.data?.size])
  const [Icon, words, tone] = saying(checked, now)
  return (
    <Link to="/journal" className={`flex items-center gap-1 rounded-full px-2 py-0.5 whitespace-nowrap no-underline ${tone}`} title="Whether the record holds; verified in this browser">
      <Icon size={15} aria-hidden /> {words}
    </Link>
  )
}

const PLAIN = 'bg-sunken text-ink'
const GOOD = 'bg-good-ground text-good'
const BAD = 'bg-bad-ground text-bad'
const WARN = 'bg-warn-ground text-warn'

function saying(checked: Checked, now: number) {
  switch (checked.is) {
    case 'unknown':
      return [Loader, 'looking …', PLAIN] as const
    case 'empty':
      return [ShieldQuestionMark, 'nothing sealed yet', PLAIN] as const
    case 'large':
      return [ShieldQuestionMark, `${checked.size.toLocaleString('en')} entries, not verified here`, PLAIN] as const
    case 'checking':
      return [Loader, `verifying ${Math.floor((100 * checked.done) / checked.all)} %`, PLAIN] as const
    case 'verified':
      return [ShieldCheck, `verified to #${checked.head.size.toLocaleString('en')}, ${fromNow(new Date(checked.at).toISOString(), now)}`, GOOD] as const
    case 'lost':
      return [ShieldAlert, 'a loss was declared', WARN] as const
    case 'other-key':
      return [ShieldAlert, 'signed by another key', WARN] as const
    case 'tampered':
      return [ShieldAlert, 'tampered with', BAD] as const
    case 'trouble':
      return [ShieldQuestionMark, 'cannot be verified now', WARN] as const
  }
}
