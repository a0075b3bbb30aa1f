import type { Difference } from '../api/asks'
import { Text } from './Text'

/** Is how many fields are shown, and how much of a long value. All of it is among the arguments. */
const MOST_FIELDS = 200
const MOST_LETTERS = 500

/** Shows field by field what differs; a side where a field is not there says so. */
export function Changes({ of, before, after }: { of: readonly Difference[]; before: string; after: string }) {
  return (
    <div className="overflow-x-auto rounded-lg border border-line">
      <table className="w-full text-left text-sm">
        <thead className="bg-raised text-muted">
          <tr>
            {['field', before, after].map((name) => (
              <th key={name} scope="col" className="px-3 py-1.5 font-medium">{name}</th>
            ))}
          </tr>
        </thead>
        <tbody className="font-mono">
          {of.slice(0, MOST_FIELDS).map((one) => (
            <tr key={one.path} className="border-t border-line align-top">
              <th scope="row" className="px-3 py-1.5 font-normal"><Text>{one.path.length > MOST_LETTERS ? `${one.path.slice(0, MOST_LETTERS)}…` : one.path}</Text></th>
              <td className="max-w-xs px-3 py-1.5 break-all text-bad"><Side of={one} name="before" /></td>
              <td className="max-w-xs px-3 py-1.5 break-all text-good"><Side of={one} name="after" /></td>
            </tr>
          ))}
        </tbody>
      </table>
      {of.length > MOST_FIELDS && <p className="border-t border-line px-3 py-1.5 text-sm text-warn">and {(of.length - MOST_FIELDS).toLocaleString('en')} more fields that differ</p>}
    </div>
  )
}

function Side({ of, name }: { of: Difference; name: 'before' | 'after' }) {
  if (!(name in of)) return <span className="text-muted">not there</span>
  const text = JSON.stringify(of[name])
  if (text.length <= MOST_LETTERS) return <Text>{text}</Text>
  return <><Text>{text.slice(0, MOST_LETTERS)}</Text> <span className="font-sans text-warn">… {text.length.toLocaleString('en')} characters</span></>
}
