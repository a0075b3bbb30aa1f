import { Link } from '@tanstack/react-router'

/** Leads to the parts of one page; each has its own address. */
export function Tabs<Name extends string>({ label, of, chosen }: { label: string; of: readonly (readonly [Name, string])[]; chosen: Name }) {
  return (
    <nav aria-label={label} className="print:hidden flex gap-1 overflow-x-auto border-b border-line px-4">
      {of.map(([name, title]) => (
        <Link
          key={name}
          to="."
          search={((before: Record<string, unknown>) => ({ ...before, tab: name })) as never}
          replace
          className={`border-b-2 px-2 py-1.5 text-sm whitespace-nowrap text-ink no-underline hover:bg-raised ${chosen === name ? 'border-accent font-semibold' : 'border-transparent'}`}
          {...(chosen === name && { 'aria-current': 'page' as const })}
        >
          {title}
        </Link>
      ))}
    </nav>
  )
}
