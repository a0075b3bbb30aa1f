/** What somebody wants to be forgotten, as they wrote it, and as it is asked for. */

export type What = { readonly kind: 'person' | 'run'; readonly subject: string; readonly force: boolean; readonly run: string; readonly seq: string; readonly fields: string }

export const A_PERSON: What = { kind: 'person', subject: '', force: false, run: '', seq: '', fields: '' }
export const aRun = (run: string, seq?: number): What => ({ ...A_PERSON, kind: 'run', run, seq: seq === undefined ? '' : String(seq + 1) })

export type Wanted = { subject: string; force: boolean; dry_run: false } | { run_id: string; seq?: number; fields?: string[]; force: false; dry_run: false }

/** Gives what is asked for, or null when it says too little. People count events from 1, the record from 0. */
export function wanted({ kind, subject, force, run, seq, fields }: What): Wanted | null {
  if (kind === 'person') return subject ? { subject, force, dry_run: false } : null
  const number = Number(seq)
  if (!run || !Number.isInteger(number) || (seq !== '' && number < 1)) return null
  const names = fields.split(/[\s,]+/).filter(Boolean)
  return { run_id: run, ...(seq !== '' && { seq: number - 1 }), ...(names.length > 0 && { fields: names }), force: false, dry_run: false }
}
