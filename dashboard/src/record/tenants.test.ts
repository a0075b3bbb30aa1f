/** 66: neither another tenant's journal nor a line with another name on it counts as ours. */

import { expect, it } from 'vitest'
import fixture from './journal.fixture.json'
import { checkSignedBy, isOfTenant, parseKey, parseNote } from './notes'

it('66: knows the journal of a tenant by its origin', () => {
  expect(isOfTenant('ledger-1/default', 'default')).toBe(true)
  expect(isOfTenant('ledger-1/a%20b', 'a b')).toBe(true)
  expect(isOfTenant('ledger-1/other', 'default')).toBe(false)
  expect(isOfTenant('default', 'default')).toBe(false)
  expect(isOfTenant('ledger-1/%', '%')).toBe(false)
})

it('66: takes no head whose line bears another name, and none of another journal', async () => {
  const key = await parseKey(fixture.vkey)
  await expect(checkSignedBy(parseNote(fixture.note), key)).resolves.toMatchObject({ origin: key.name })
  await expect(checkSignedBy(parseNote(fixture.note.replace(`— ${key.name}`, '— ledger-1/other')), key)).rejects.toThrow('not signed')
  await expect(checkSignedBy(parseNote(fixture.note.replace(key.name, 'ledger-1/other')), key)).rejects.toThrow('another journal')
})
