import { Copy } from './Copy'
import { Text } from './Text'

/** Shows a command to run elsewhere, with a way to copy it. */
export function Command({ name, children }: { name: string; children: string }) {
  return (
    <div className="flex items-start gap-1 rounded-lg bg-sunken p-2">
      <pre tabIndex={0} aria-label={name} className="min-w-0 flex-1 overflow-x-auto text-[13px] whitespace-pre"><Text>{children}</Text></pre>
      <Copy text={children} label={`Copy: ${name}`} />
    </div>
  )
}
