import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { billingMigrations } from '../migrations.ts'

const migrations = new URL('../../migrations/', import.meta.url).pathname
const former = [
  '0001-billing.sql',
  '0002-sale-intents.sql',
  '0003-lists-and-search.sql',
  '0004-payment-days.sql',
  '0005-fulfilment.sql',
  '0006-former-sales.sql',
  '0007-facts-waiting.sql',
]

test('connections of before count as proven; one that several accounts had stays with who sold last, else came first', async () => {
  await using database = await createTestDatabase()
  await using folder = await makeTemporaryFolder()
  await using sql = Object.assign(connect(database.url, { name: 'test', max: 2 }), {
    [Symbol.asyncDispose]: () => sql.end({ timeout: 5 }),
  })
  for (const name of former) cpSync(join(migrations, name), join(folder.path, name))
  const [outbox, idempotency] = billingMigrations
  await migrate(sql, [outbox!, idempotency!, { name: 'billing', path: folder.path }])
  await sql`
    insert into processor_connections (account_id, merchant, current, connected_at) values
      ('alone', 'stripe:acct_1', true, '2026-01-01'), ('former', 'stripe:acct_1', false, '2025-01-01'),
      ('first', 'stripe:acct_2', true, '2026-01-01'), ('second', 'stripe:acct_2', true, '2026-02-01'),
      ('early', 'stripe:acct_3', true, '2026-01-01'), ('seller', 'stripe:acct_3', true, '2026-02-01')`
  await sql`
    insert into checkout_sessions (id, account_id, application_id, plan_id, external_ref, price_id, mode, amount,
      currency, fee_minor, fee_bps, fee_fixed_minor, merchant, checkout_ref, paid_at)
    values ('cs_1', 'seller', 'app_1', 'pln_1', 'cust', 'price', 'payment', 1, 'usd', 0, 0, 0, 'stripe:acct_3',
      'cs_test_1', '2026-03-01')`
  await migrate(sql, billingMigrations)
  const holders = await sql<{ account_id: string; proven: boolean }[]>`
    select account_id, proven from processor_connections
    where current and disconnected_at is null order by merchant`
  expect(holders.map((row) => ({ ...row }))).toEqual([
    { account_id: 'alone', proven: true },
    { account_id: 'first', proven: true },
    { account_id: 'seller', proven: true },
  ])
})
