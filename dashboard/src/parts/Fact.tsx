import type { ReactNode } from 'react'

/** Lists facts, each with its name. */
export function Facts({ children }: { children: ReactNode }) {
  return <dl className="grid grid-cols-[max-content_1fr] gap-x-4 gap-y-1.5 text-sm">{children}</dl>
}

export function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd className="min-w-0 break-words">{children}</dd>
    </>
  )
}

/** Is a part of a page, with its heading. */
export function Section({ title, children, aside, level = 3 }: { title: string; children: ReactNode; aside?: ReactNode; level?: 2 | 3 }) {
  const Heading = `h${level}` as const
  return (
    <section className="space-y-2">
      <div className="flex items-baseline justify-between gap-4">
        <Heading className="text-sm font-semibold">{title}</Heading>
        {aside}
      </div>
      {children}
    </section>
  )
}
