import { transaction } from '@licensing/database/transaction'
import { connect } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { billingMigrations } from '../migrations.ts'
import { insertPayment } from '../payments/payment-queries.ts'
import { postEntries } from './post-entries.ts'

/** A database owned by an ordinary role, as in a deployment. */
async function givenRole() {
  const database = await createTestDatabase()
  const admin = connect(database.url, { name: 'test', max: 1 })
  const role = `billing_${randomBytes(6).toString('hex')}`
  await admin.unsafe(`create role ${role} login password 'of-the-test'`)
  await admin.unsafe(`alter database ${database.name} owner to ${role}`)
  await admin.unsafe(`alter schema public owner to ${role}`)
  const url = new URL(database.url)
  url.username = role
  url.password = 'of-the-test'
  const sql = connect(url.href, { name: 'billing-test', max: 2 })
  onTestFinished(async () => {
    await sql.end({ timeout: 5 })
    await admin.unsafe(`reassign owned by ${role} to current_user`)
    await admin.unsafe(`drop owned by ${role}`)
    await admin.end()
    await database[Symbol.asyncDispose]()
  })
  return sql
}

test('the role that billing runs as can add to the ledger, and has no right to change or empty it', async () => {
  const sql = await givenRole()
  await migrate(sql, billingMigrations)
  const owner = { account_id: newId('acct'), application_id: newId('app') }
  const paymentId = newId('pay')
  await insertPayment(sql, 'sale:1', {
    ...owner,
    id: paymentId,
    session_id: null,
    sale_id: null,
    invoice_ref: null,
    plan_id: newId('pln'),
    external_ref: 'customer-1',
    amount: 4_900n,
    currency: 'usd',
    fee_minor: 245n,
    licence_id: null,
    paid_at: new Date(),
    merchant: 'stripe:acct_1',
    payment_ref: null,
    charge_state: 'none',
  })
  const entry = {
    ...owner,
    payment_id: paymentId,
    id: newId('fee'),
    kind: 'charge' as const,
    cause: '',
    amount_minor: 245n,
    currency: 'usd',
    period: '2026-11',
    occurred_at: new Date(),
  }
  await transaction(sql, (tx) => postEntries(tx, [entry]))
  for (const statement of [
    'update fee_entries set amount_minor = amount_minor + 1',
    'delete from fee_entries',
    'truncate fee_entries',
  ]) {
    await expect(sql.unsafe(statement)).rejects.toThrow('permission denied for table fee_entries')
  }
  expect(await sql`select amount_minor from fee_entries`).toEqual([{ amount_minor: 245n }])
})
