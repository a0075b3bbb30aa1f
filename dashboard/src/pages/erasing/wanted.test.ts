import { expect, it } from 'vitest'
import { A_PERSON, aRun, wanted } from './wanted'

const never = { force: false, dry_run: false }

it('asks for a person, a run, an event, and some of its fields', () => {
  expect(wanted({ ...A_PERSON, subject: 'customer-7', force: true })).toEqual({ subject: 'customer-7', force: true, dry_run: false })
  expect(wanted(aRun('order-1'))).toEqual({ run_id: 'order-1', ...never })
  expect(wanted(aRun('order-1', 0))).toEqual({ run_id: 'order-1', seq: 0, ...never })
  expect(wanted({ ...aRun('order-1', 4), fields: 'args, result' })).toEqual({ run_id: 'order-1', seq: 4, fields: ['args', 'result'], ...never })
})

it('asks for nothing that was not said', () => {
  for (const seq of ['0', '-1', '1.5', 'x']) expect(wanted({ ...aRun('order-1'), seq })).toBeNull()
  expect(wanted(aRun(''))).toBeNull()
  expect(wanted(A_PERSON)).toBeNull()
})
