import type { ReactNode } from 'react'

/** Says why there is nothing here, and how to get something. */
export function Empty({ title, children }: { title: string; children?: ReactNode }) {
  return (
    <div className="mx-auto max-w-xl space-y-3 px-6 py-16 text-center text-muted">
      <p className="text-lg font-medium text-ink">{title}</p>
      {children}
    </div>
  )
}

/** Shows lines to copy into a program or a terminal. */
export function Snippet({ children }: { children: string }) {
  return <pre tabIndex={0} className="overflow-x-auto rounded-lg bg-sunken p-3 text-left text-sm text-ink">{children}</pre>
}
