import { expect, test } from 'vitest'
import { anApp, givenTables, insertPayment } from '../../test/tables.ts'
import { claimFeeRefund, finishFeeRefund, insertFeeRefunds } from './fee-refund-queries.ts'

test('a fee refund whose process died is leased again within half a minute, by one process at a time', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const payment_id = await insertPayment(sql, anApp(), { chargeRef: 'ch_1' })
  await insertFeeRefunds(sql, [{ fee_entry_id: 'fee_1', payment_id, amount_minor: 49n }])
  const taken = await Promise.all([claimFeeRefund(sql), claimFeeRefund(sql)])
  expect(taken.filter((refund) => refund !== undefined)).toMatchObject([
    { fee_entry_id: 'fee_1', charge_refs: ['ch_1'], attempts: 1 },
  ])
  const pass = () => sql`update fee_refunds set next_at = next_at - interval '30 seconds'`
  await pass()
  expect(await claimFeeRefund(sql)).toMatchObject({ fee_entry_id: 'fee_1', attempts: 2 })
  await finishFeeRefund(sql, 'fee_1')
  await pass()
  expect(await claimFeeRefund(sql)).toBeUndefined()
})
