import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createTestDatabase } from '@licensing/test-support/database'
import { cpSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { billingMigrations } from '../migrations.ts'
import { decide } from './decide.ts'
import { loadHistories } from './decision-queries.ts'
import { findWaitingEffects } from './effect-queries.ts'
import { lease, queues, take } from './waiting-queries.ts'

const migrations = new URL('../../migrations/', import.meta.url).pathname
const former = [
  '0001-billing.sql',
  '0002-sale-intents.sql',
  '0003-lists-and-search.sql',
  '0004-payment-days.sql',
]

/** A database of the release before 0005, changed by `work`, then brought up to date. */
async function upgraded(work: (sql: Database) => Promise<void>, check: (sql: Database) => Promise<void>) {
  await using database = await createTestDatabase()
  const folder = mkdtempSync(join(tmpdir(), 'billing-migrations-'))
  const sql = connect(database.url, { name: 'test', max: 2 })
  try {
    for (const name of former) cpSync(join(migrations, name), join(folder, name))
    await migrate(sql, [billingMigrations[0]!, { name: 'billing', path: folder }])
    await work(sql)
    await migrate(sql, billingMigrations)
    await check(sql)
  } finally {
    await sql.end({ timeout: 5 })
    rmSync(folder, { recursive: true })
  }
}

async function givenFormerSale(sql: Database): Promise<void> {
  await sql`
    insert into checkout_sessions (id, account_id, application_id, plan_id, external_ref, price_id, mode, amount,
      currency, fee_minor, fee_bps, fee_fixed_minor, status, licence_id, provisioned_at, merchant, checkout_ref,
      payment_state, paid_amount, paid_currency, paid_at, payment_ref)
    values ('cs_1', 'acct_1', 'app_1', 'pln_1', 'cust-1', 'price_1', 'payment', 4900, 'usd', 245, 500, 0,
      'provisioned', 'lic_1', now(), 'stripe:acct_1', 'cs_test_1', 4, 4900, 'usd', '2026-10-10', 'pi_1')`
  await sql`
    insert into payments (id, account_id, application_id, source_key, session_id, plan_id, external_ref, amount,
      currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charged_at, charge_state)
    values ('pay_1', 'acct_1', 'app_1', 'checkout:cs_1', 'cs_1', 'pln_1', 'cust-1', 4900, 'usd', 245, 'lic_1',
      '2026-10-10', 'stripe:acct_1', 'pi_1', 'ch_1', '2026-10-10', 'known')`
  await sql`
    insert into charge_facts (merchant, charge_ref, payment_ref, amount, currency, charged_at, refunded)
    values ('stripe:acct_1', 'ch_1', 'pi_1', 4900, 'usd', '2026-10-10', 4900)`
  await sql`
    insert into refund_facts (merchant, refund_ref, payment_ref, charge_ref, amount, currency, created_at, status,
      succeeded, succeeded_at, ripe_at)
    values ('stripe:acct_1', 're_1', 'pi_1', 'ch_1', 4900, 'usd', '2026-10-11', 'succeeded', true, '2026-10-11', now())`
  await sql`
    insert into refunds (id, account_id, application_id, payment_id, merchant, ref, amount, currency, lane, status,
      occurred_at, processed)
    values ('rfd_1', 'acct_1', 'app_1', 'pay_1', 'stripe:acct_1', 're_1', 4900, 'usd', 'full_refund', 'succeeded',
      '2026-10-11', true)`
  await sql`
    insert into fee_entries (id, account_id, application_id, payment_id, kind, amount_minor, currency, period, occurred_at)
    values ('fee_1', 'acct_1', 'app_1', 'pay_1', 'charge', 245, 'usd', '2026-10', '2026-10-10'),
      ('fee_2', 'acct_1', 'app_1', 'pay_1', 'credit', -245, 'usd', '2026-10', '2026-10-11')`
}

test('a sale of an earlier release is sent to licensing once as a purchase, and nothing of it is done again', async () => {
  await upgraded(givenFormerSale, async (sql) => {
    await sql.begin(async (tx) => {
      const [history] = await loadHistories(tx, await take(tx, queues.decisions, ['acct_1'], 1))
      const rules = { failuresBeforeSuspend: 3, graceMs: 0 }
      const decision = decide(history!, new Date(Date.now() + 60_000), rules)
      expect(decision.effects).toMatchObject([{ kind: 'landed', plan_id: 'pln_1', state: 'waiting' }])
      expect(decision).toMatchObject({ entries: [], refunds: [], payments: [], feeRefunds: [], alerts: [] })
    })
  })
})

test('a sale event of an earlier release is sent to licensing once as a purchase', async () => {
  const givenSaleEvent = async (sql: Database) => {
    await sql`
      insert into sale_events (id, account_id, application_id, sale_id, body_hash, external_ref, plan_id, amount,
        currency, occurred_at, status, licence_id, provisioned_at)
      values ('sale_1', 'acct_1', 'app_1', 'order-1', ''::bytea, 'cust-1', 'pln_1', 4900, 'usd', '2026-10-10',
        'provisioned', 'lic_1', now())`
  }
  await upgraded(givenSaleEvent, async (sql) => {
    const claimed = await lease(sql, queues.effects, ['acct_1'], 10)
    expect(claimed).toMatchObject([{ purchase_ref: 'sale_1' }])
    expect(await findWaitingEffects(sql, ['sale_1'])).toMatchObject([
      { kind: 'landed', cause: 'sale:order-1', plan_id: 'pln_1', external_ref: 'cust-1' },
    ])
  })
})
