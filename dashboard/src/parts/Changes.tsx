import type { Difference } from '../api/asks'
import { Text } from './Text'

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
          {of.map((one) => (
            <tr key={one.path} className="border-t border-line align-top">
              <th scope="row" className="px-3 py-1.5 font-normal"><Text>{one.path}</Text></th>
              <td className="max-w-xs px-3 py-1.5 break-all text-bad"><Side of={one} name="before" /></td>
              <td className="max-w-xs px-3 py-1.5 break-all text-good"><Side of={one} name="after" /></td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}

function Side({ of, name }: { of: Difference; name: 'before' | 'after' }) {
  if (!(name in of)) return <span className="text-muted">not there</span>
  return <Text>{JSON.stringify(of[name])}</Text>
}
