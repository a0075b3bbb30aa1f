import { TriangleAlert } from 'lucide-react'
import type { ReactNode } from 'react'
import { Problem } from '../api/client'
import { Text } from './Text'

/** Says what went wrong, and what to do next. */
export function Trouble({ error, onRetry, children }: { error: unknown; onRetry?: () => void; children?: ReactNode }) {
  const title = error instanceof Problem ? error.title : 'Something went wrong in this page'
  const detail = error instanceof Error ? error.message : String(error)
  return (
    <div role="alert" className="m-4 flex gap-3 rounded-lg border border-bad/40 bg-bad-ground p-4 text-bad">
      <TriangleAlert className="shrink-0" size={20} aria-hidden />
      <div className="min-w-0 space-y-1">
        <p className="font-semibold"><Text>{title}</Text></p>
        {detail !== title && <p className="break-words"><Text>{detail}</Text></p>}
        {onRetry && <button type="button" onClick={onRetry} className="underline">Try again</button>}
        {children}
      </div>
    </div>
  )
}
