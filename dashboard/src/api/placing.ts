/** Where one thing stands in a list that came in pages: changed in its place, new at its place, or gone. */

export type Page<Thing> = { readonly things: readonly Thing[]; readonly next: string | null }

/** Says whether the first of two comes before the second in a list. */
export type Order<Thing> = (one: Thing, other: Thing) => boolean

type Named = { readonly id: string }
export const byId: Order<Named> = (one, other) => one.id > other.id
export const byBeginning: Order<Named & { readonly created_at: string }> = (one, other) =>
  one.created_at === other.created_at ? byId(one, other) : one.created_at > other.created_at

/** Puts a thing where it belongs in ordered pages; null takes the one with this id out. */
export function placed<Thing extends Named>(pages: readonly Page<Thing>[], id: string, thing: Thing | null, isBefore: Order<Thing> = byId): Page<Thing>[] {
  const at = pages.findIndex((page) => page.things.some((one) => one.id === id))
  if (at >= 0) return pages.map((page, index) => (index === at ? { ...page, things: without(page.things, id, thing) } : page))
  if (!thing) return [...pages]
  const home = pages.findIndex((page) => page.next === null || page.things.some((one) => isBefore(thing, one)))
  if (home < 0) return [...pages] // it comes with a page that nobody has asked for yet
  return pages.map((page, index) => (index === home ? { ...page, things: withNew(page.things, thing, isBefore) } : page))
}

function without<Thing extends Named>(things: readonly Thing[], id: string, instead: Thing | null): Thing[] {
  return things.flatMap((one) => (one.id !== id ? [one] : instead ? [instead] : []))
}

function withNew<Thing extends Named>(things: readonly Thing[], thing: Thing, isBefore: Order<Thing>): Thing[] {
  const before = things.findIndex((one) => isBefore(thing, one))
  const at = before < 0 ? things.length : before
  return [...things.slice(0, at), thing, ...things.slice(at)]
}
