/** What a call's key and digest are made of, computed here: nobody has to believe which fields made two calls the same. */

import { concat, sha256, toHex, utf8, type Bytes } from './bytes'
import { canonical } from './canonical'

type Call = { readonly tool: string; readonly scope: string; readonly key: string; readonly digest: string; readonly call_id: string | null; readonly args: unknown }

export type KeyOf =
  | { readonly is: 'args'; readonly withCall: boolean }
  | { readonly is: 'fields'; readonly fields: readonly string[]; readonly withCall: boolean }
  | { readonly is: 'unknown' }

/** Is up to how many arguments all choices of them are tried. */
const MOST_FIELDS = 9

export async function hashed(tag: string, ...parts: (string | Bytes)[]): Promise<string> {
  const pieces: Bytes[] = [utf8(tag), Uint8Array.of(0)]
  for (const part of parts) {
    const raw = typeof part === 'string' ? utf8(part) : part
    const size = new Uint8Array(4)
    new DataView(size.buffer).setUint32(0, raw.length)
    pieces.push(size, raw)
  }
  return toHex(await sha256(concat(...pieces)))
}

/** Finds which arguments made the key; `unknown` where they do not tell, as when it was made of a resource. */
export async function keyOf(call: Call, tenant: string): Promise<KeyOf> {
  const matches = async (kind: string, subject: string) => {
    const plain = await hashed('indelible/key/v1', tenant, call.scope, call.tool, kind, subject)
    if (plain === call.key) return { withCall: false }
    if (call.call_id === null) return null
    const repeated = await hashed('indelible/repeat/v1', plain, call.call_id)
    const named = await hashed('indelible/key/v1', tenant, call.scope, call.tool, kind, subject, call.call_id)
    return repeated === call.key || named === call.key ? { withCall: true } : null
  }
  const whole = await matches('args', canonical(call.args))
  if (whole) return { is: 'args', ...whole }
  for (const fields of choices(call.args)) {
    const found = await matches('fields', canonical(Object.fromEntries(fields.map((path) => [path, reach(call.args, path)]))))
    if (found) return { is: 'fields', fields, ...found }
  }
  return { is: 'unknown' }
}

/** Says whether the digest that approvals are bound to is of these arguments. */
export async function isDigestOf(call: Call, tenant: string): Promise<boolean> {
  return (await hashed('indelible/digest/v1', tenant, call.tool, canonical(call.args), '')) === call.digest
}

type Asked = { readonly id: string; readonly digest: string; readonly for_run: string; readonly tool: string; readonly schema: string; readonly policy: string; readonly expires_at: string }

/** Says whether an approval's digest is of exactly this text of arguments, and of all else that it binds. */
export async function isDigestOfApproval(asked: Asked, argsText: string, tenant: string): Promise<boolean> {
  const { id, for_run, tool, schema, policy, expires_at } = asked
  return (await hashed('indelible/approval/v1', tenant, id, for_run, tool, schema, argsText, policy, expires_at)) === asked.digest
}

/** Gives the choices of arguments that may have made a key, the smallest first; single ones also from inside others. */
export function choices(args: unknown): string[][] {
  if (typeof args !== 'object' || args === null || Array.isArray(args)) return []
  const names = Object.keys(args)
  const inner = paths(args, '').filter((path) => !names.includes(path)).map((path) => [path])
  if (names.length > MOST_FIELDS) return [...names.map((name) => [name]), ...inner]
  const subsets = Array.from({ length: 2 ** names.length - 1 }, (_, bits) => names.filter((_name, at) => (bits + 1) & (1 << at)))
  return [...subsets.sort((one, other) => one.length - other.length), ...inner]
}

function paths(value: unknown, prefix: string): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return []
  return Object.entries(value).flatMap(([name, each]) => [prefix + name, ...paths(each, `${prefix}${name}.`)]).slice(0, 200)
}

function reach(args: unknown, path: string): unknown {
  return path.split('.').reduce<unknown>((here, name) => (here as Record<string, unknown>)?.[name], args)
}
