import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { billingMigrations } from '../src/tables.ts'

/** A database with the tables of billing, without a running service. */
export async function givenTables() {
  const database = await createTestDatabase()
  const sql = connect(database.url, { name: 'test', max: 4 })
  await migrate(sql, billingMigrations)
  return {
    sql,
    [Symbol.asyncDispose]: async () => {
      await sql.end({ timeout: 5 })
      await database[Symbol.asyncDispose]()
    },
  }
}

export interface App {
  accountId: string
  applicationId: string
}

export const anApp = (): App => ({ accountId: newId('acct'), applicationId: newId('app') })

interface PaymentFields {
  at?: string
  amount?: number
  currency?: string
  licenceId?: string
  chargeRef?: string
  paymentRef?: string
}

/** @returns its id */
export async function insertPayment(sql: Database, app: App, fields: PaymentFields = {}): Promise<string> {
  const id = newId('pay')
  await sql`
    insert into payments (id, account_id, application_id, source_key, purchase_ref, plan_id, external_ref, amount,
      currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charge_state)
    values (${id}, ${app.accountId}, ${app.applicationId}, ${`test:${id}`}, ${id}, 'pln_1', 'c',
      ${fields.amount ?? 4900}, ${fields.currency ?? 'eur'}, 49, ${fields.licenceId ?? null},
      ${fields.at ?? '2026-03-01T12:00:00Z'}, 'm', ${fields.paymentRef ?? null}, ${fields.chargeRef ?? null}, 'known')`
  return id
}

export async function insertFee(
  sql: Database,
  app: App,
  paymentId: string,
  fields: { kind: string; amount: number; at?: string },
): Promise<void> {
  await sql`
    insert into fee_entries (id, account_id, application_id, payment_id, kind, amount_minor, currency, period,
      occurred_at)
    values (${newId('fee')}, ${app.accountId}, ${app.applicationId}, ${paymentId}, ${fields.kind}, ${fields.amount},
      'eur', '2026-03', ${fields.at ?? '2026-03-01T12:00:00Z'})`
}
