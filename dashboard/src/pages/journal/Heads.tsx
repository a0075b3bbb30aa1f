import { useInfiniteQuery, useMutation } from '@tanstack/react-query'
import { useState, type FormEvent } from 'react'
import { api, told } from '../../api/client'
import type { components } from '../../api/schema'
import { Asked } from '../../parts/Acting'
import { Button } from '../../parts/Button'
import { Copy, Id } from '../../parts/Copy'
import { Section } from '../../parts/Fact'
import { Text } from '../../parts/Text'
import { Trouble } from '../../parts/Trouble'
import { compareHead } from '../../record/consistency'

type Head = components['schemas']['HeadShown']
const PAGE = 5

const TONES = { continued: 'bg-good-ground text-good', lost: 'bg-warn-ground text-warn', broken: 'bg-bad-ground text-bad' }

/** Shows the heads that were signed and who signed them, and proves that the journal continues one. */
export function Heads() {
  const asked = useInfiniteQuery({
    queryKey: ['journal', 'heads'],
    queryFn: ({ pageParam }) => told(api.GET('/v1/journal/heads', { params: { query: { limit: PAGE, ...(pageParam > 0 && { before: pageParam }) } } })),
    initialPageParam: 0,
    getNextPageParam: (page) => page.next,
  })
  const heads = asked.data?.pages.flatMap((page) => page.heads) ?? []
  const comparing = useMutation({ mutationFn: compareHead })
  const newest = heads[0]
  if (!newest) return null
  return (
    <Section level={2} title="Signed heads">
      <p className="text-sm text-muted">Each head binds all entries before it. Keep one elsewhere, or let a witness sign it, and nobody can rewrite what was before it unseen.</p>
      <List of={heads} newest={newest} compare={comparing.mutate} />
      {asked.hasNextPage && <Button onClick={() => void asked.fetchNextPage()}>Show older heads</Button>}
      <FromElsewhere compare={comparing.mutate} />
      <div role="status">
        {comparing.data && <p className={`rounded-lg p-3 text-sm ${TONES[comparing.data.is]}`}>{comparing.data.says} Computed in this browser.</p>}
        {comparing.error && <Trouble error={comparing.error} />}
      </div>
    </Section>
  )
}

function List({ of, newest, compare }: { of: readonly Head[]; newest: Head; compare: (note: string) => void }) {
  return (
    <div className="overflow-x-auto rounded-lg border border-line">
      <table className="w-full text-left text-sm">
        <thead className="bg-raised text-muted">
          <tr>{['entries', 'root', 'witnesses', 'note', 'continued'].map((name) => <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>)}</tr>
        </thead>
        <tbody>
          {of.map((head) => (
            <tr key={head.size} className="border-t border-line">
              <td className="px-3 py-1.5">{head.size.toLocaleString('en')}</td>
              <td className="px-3 py-1.5"><Id length={16}>{head.root}</Id></td>
              <td className="px-3 py-1.5"><Witnesses of={head} /></td>
              <td className="px-3 py-1.5"><Copy text={head.note} label={`Copy the head of ${head.size} entries`} /></td>
              <td className="px-3 py-1.5">{head === newest ? <span className="text-muted">the newest</span> : <button type="button" className="underline" onClick={() => compare(head.note)}>prove</button>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

/** Names whoever signed beside the journal itself. */
function Witnesses({ of: { origin, signatures } }: { of: Head }) {
  const others = signatures.filter((one) => one.name !== origin)
  if (others.length === 0) return <span className="text-muted">none</span>
  return <Text>{others.map((one) => one.name).join(', ')}</Text>
}

function FromElsewhere({ compare }: { compare: (note: string) => void }) {
  const [note, setNote] = useState('')
  const submit = (event: FormEvent) => {
    event.preventDefault()
    compare(note)
  }
  return (
    <details className="rounded-lg border border-line px-3 py-2 text-sm">
      <summary className="cursor-pointer">Compare with a head that you kept elsewhere</summary>
      <form onSubmit={submit} className="mt-2 space-y-2">
        <Asked isCode label="The head" hint="The whole note, with its lines of signatures, as indelible witness or the column note gave it." rows={6} value={note} onChange={setNote} />
        <Button type="submit" disabled={!note.trim()}>Does the journal continue it?</Button>
      </form>
    </details>
  )
}
