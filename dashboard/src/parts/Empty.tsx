import type { ReactNode } from 'react'
import { Copy } from './Copy'
import { Text } from './Text'

/** Says why there is nothing here, and how to get something. */
export function Empty({ title, children, isPage = false }: { title: string; children?: ReactNode; isPage?: boolean }) {
  const Title = isPage ? 'h1' : 'p'
  return (
    <div className="mx-auto max-w-xl space-y-3 px-6 py-16 text-center text-muted">
      <Title className="text-lg font-medium text-ink">{title}</Title>
      {children}
    </div>
  )
}

/** Shows lines to copy into a program or a terminal. */
export function Snippet({ children }: { children: string }) {
  return (
    <div className="flex items-start gap-1 rounded-lg bg-sunken p-3">
      <pre tabIndex={0} className="min-w-0 flex-1 overflow-x-auto text-left text-sm text-ink"><Text>{children}</Text></pre>
      <Copy text={children} label="Copy these lines" />
    </div>
  )
}
