import { pieces } from './visible'

/** Shows a text from outside exactly: what hides in it is named, and its direction stays its own. */
export function Text({ children }: { children: string }) {
  const parts = pieces(children)
  if (parts.length === 1 && !parts[0]!.hidden) return <bdi>{children}</bdi>
  return (
    <bdi>
      {parts.map((part, index) =>
        part.hidden ? (
          <span key={index} className="mx-px rounded-sm bg-bad-ground px-0.5 text-[0.8em] text-bad" title="a character that cannot be seen">
            {part.text}
          </span>
        ) : (
          <span key={index}>{part.text}</span>
        ),
      )}
    </bdi>
  )
}
