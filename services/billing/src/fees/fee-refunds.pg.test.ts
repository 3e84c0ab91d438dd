import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { expect, test } from 'vitest'
import { billingMigrations } from '../migrations.ts'
import { claimFeeRefund, finishFeeRefund, insertFeeRefunds } from './fee-refund-queries.ts'

test('a fee refund whose process died is leased again within half a minute, by one process at a time', async () => {
  await using database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 3 })
  await migrate(sql, billingMigrations)
  await sql`
    insert into payments (id, account_id, application_id, source_key, plan_id, external_ref, amount, currency, fee_minor,
      paid_at, charge_ref, charge_state)
    values ('pay_1', 'acct_1', 'app_1', 'checkout:cs_1', 'pln_1', 'customer', 4900, 'usd', 49, now(), 'ch_1', 'known')`
  await insertFeeRefunds(sql, [{ fee_entry_id: 'fee_1', payment_id: 'pay_1', amount_minor: 49n }])
  const taken = await Promise.all([claimFeeRefund(sql), claimFeeRefund(sql)])
  expect(taken.filter((refund) => refund !== undefined)).toMatchObject([
    { fee_entry_id: 'fee_1', charge_ref: 'ch_1', attempts: 1 },
  ])
  await sql`update fee_refunds set next_at = next_at - interval '30 seconds'`
  expect(await claimFeeRefund(sql)).toMatchObject({ fee_entry_id: 'fee_1', attempts: 2 })
  await finishFeeRefund(sql, 'fee_1')
  await sql`update fee_refunds set next_at = next_at - interval '30 seconds'`
  expect(await claimFeeRefund(sql)).toBeUndefined()
  await sql.end()
})
