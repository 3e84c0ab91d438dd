import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { randomBytes } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { anApp, insertFee, insertPayment } from '../../test/tables.ts'
import { billingMigrations } from '../tables.ts'

/** A database owned by an ordinary role, as in a deployment, and a superuser's connection to it. */
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
  return { sql, admin }
}

test('the role that billing runs as can add to the ledger, and nobody can change or empty it', async () => {
  const { sql, admin } = await givenRole()
  await migrate(sql, billingMigrations)
  const app = anApp()
  await insertFee(sql, app, await insertPayment(sql, app), { kind: 'charge', amount: 245 })
  for (const statement of [
    'update fee_entries set amount_minor = amount_minor + 1',
    'delete from fee_entries',
    'truncate fee_entries cascade',
  ]) {
    await expect(sql.unsafe(statement)).rejects.toThrow('permission denied for table fee_entries')
    await expect(admin.unsafe(statement)).rejects.toThrow('fee_entries is append-only')
  }
  expect(await sql`select amount_minor from fee_entries`).toEqual([{ amount_minor: 245n }])
})
