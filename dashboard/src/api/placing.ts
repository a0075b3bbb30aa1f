/** Where one thing stands in a list that came in pages: changed in its place, new at its place, or gone. */

export type Page<Thing> = { readonly things: readonly Thing[]; readonly next: string | null }

/** Puts a thing where it belongs in pages ordered by id, largest first; null takes the one with this id out. */
export function placed<Thing extends { readonly id: string }>(pages: readonly Page<Thing>[], id: string, thing: Thing | null): Page<Thing>[] {
  const at = pages.findIndex((page) => page.things.some((one) => one.id === id))
  if (at >= 0) return pages.map((page, index) => (index === at ? { ...page, things: without(page.things, id, thing) } : page))
  if (!thing) return [...pages]
  const home = pages.findIndex((page) => page.next === null || page.next <= id)
  if (home < 0) return [...pages] // it comes with a page that nobody has asked for yet
  return pages.map((page, index) => (index === home ? { ...page, things: withNew(page.things, thing) } : page))
}

function without<Thing extends { readonly id: string }>(things: readonly Thing[], id: string, instead: Thing | null): Thing[] {
  return things.flatMap((one) => (one.id !== id ? [one] : instead ? [instead] : []))
}

function withNew<Thing extends { readonly id: string }>(things: readonly Thing[], thing: Thing): Thing[] {
  const before = things.findIndex((one) => one.id < thing.id)
  const at = before < 0 ? things.length : before
  return [...things.slice(0, at), thing, ...things.slice(at)]
}
