/** Offers a few choices of which any number, or one, holds; each says by more than its colour whether it does. */
export function Chips<Name extends string>({ label, of, chosen, onChoose }: { label: string; of: readonly Name[]; chosen: readonly Name[]; onChoose: (name: Name) => void }) {
  return (
    <div role="group" aria-label={label} className="flex flex-wrap gap-1">
      {of.map((name) => {
        const isOn = chosen.includes(name)
        return (
          <button
            key={name}
            type="button"
            aria-pressed={isOn}
            onClick={() => onChoose(name)}
            className={`rounded-full border px-2.5 py-0.5 text-xs whitespace-nowrap ${isOn ? 'border-accent bg-accent font-semibold text-on-accent' : 'border-line text-ink hover:bg-raised'}`}
          >
            {name.replaceAll('_', ' ')}
          </button>
        )
      })}
    </div>
  )
}
