/** The one text of a JSON value (RFC 8785): what hashes are of. */

/** Writes a value as it is hashed: members in the order of their names, no space, numbers as JavaScript writes them. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value === 'object' && value !== null) {
    const members = Object.entries(value).sort(([one], [other]) => (one < other ? -1 : 1)) // by UTF-16, as the RFC wants it
    return `{${members.map(([name, each]) => `${JSON.stringify(name)}:${canonical(each)}`).join(',')}}`
  }
  return JSON.stringify(value)
}

/** Reads a value from its one text; null when the text is not the one that would be written of it again. */
export function readCanonical(text: string): { readonly value: unknown } | null {
  try {
    const value: unknown = JSON.parse(text)
    return canonical(value) === text ? { value } : null
  } catch {
    return null
  }
}
