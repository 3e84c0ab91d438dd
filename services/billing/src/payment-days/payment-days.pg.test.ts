import { expect, test } from 'vitest'
import { anApp, givenTables, insertFee, insertPayment, insertRefund } from '../../test/tables.ts'
import type { App } from '../../test/tables.ts'
import { addUpChanges, listPaymentDays } from './payment-day-queries.ts'

type Tables = Awaited<ReturnType<typeof givenTables>>

const year = { from: '2026-01-01', to: '2026-12-31' }

/** Days in short: count, gross, refunded, fee. */
async function days({ sql }: Tables, app: App) {
  const rows = await listPaymentDays(sql, { ...app, ...year })
  return rows.map(
    (row) =>
      `${row.day} ${row.currency} ${row.count} ${row.gross_minor} ${row.refunded_minor} ${row.fee_minor}`,
  )
}

/** Returns the days, which must be the same before and after the changes are added up. */
async function settledDays(tables: Tables, app: App) {
  const before = await days(tables, app)
  while ((await addUpChanges(tables.sql, 3)) > 0) {
    // Adds up until no change is left.
  }
  expect(await days(tables, app)).toEqual(before)
  return before
}

test('payments and refunds count on their own UTC day, by currency; fees, net of credits, count on the day of the payment', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  const late = await insertPayment(sql, app, { at: '2026-03-01T23:59:59.999Z' })
  const early = await insertPayment(sql, app, { at: '2026-03-02T00:00:00.000Z', amount: 1000 })
  await insertPayment(sql, app, { at: '2026-03-02T10:00:00.000Z', amount: 700, currency: 'usd' })
  await insertPayment(sql, anApp())
  await insertFee(sql, app, late, { kind: 'charge', amount: 49 })
  await insertFee(sql, app, early, { kind: 'charge', amount: 10 })
  await insertRefund(sql, app, late, { at: '2026-03-05T08:00:00Z', amount: 900, kind: 'partial_refund' })
  await insertRefund(sql, app, late, { at: '2026-03-05T09:00:00Z', amount: 4000 })
  await insertFee(sql, app, late, { kind: 'credit', amount: -49, at: '2026-03-05T09:00:00Z' })
  await insertRefund(sql, app, early, {
    at: '2026-03-06T09:00:00Z',
    kind: 'chargeback',
    status: 'won',
    amount: 1000,
  })
  expect(await settledDays(tables, app)).toEqual([
    '2026-03-01 eur 1 4900 0 0',
    '2026-03-02 eur 1 1000 0 10',
    '2026-03-02 usd 1 700 0 0',
    '2026-03-05 eur 0 0 4900 0',
    '2026-03-06 eur 0 0 1000 0',
  ])
})

test('a refund counts while it is succeeded, and no longer after it fails', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  const payment = await insertPayment(sql, app)
  const refund = await insertRefund(sql, app, payment, { status: 'pending' })
  const paid = '2026-03-01 eur 1 4900 0 0'
  expect(await settledDays(tables, app)).toEqual([paid])
  const become = (status: string) => sql`update refunds set status = ${status} where id = ${refund}`
  await become('succeeded')
  await become('succeeded')
  expect(await settledDays(tables, app)).toEqual([paid, '2026-03-02 eur 0 0 4900 0'])
  await become('failed')
  expect(await settledDays(tables, app)).toEqual([paid])
})

test('a payment whose time becomes known later moves to that day together with its fees', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  const payment = await insertPayment(sql, app, { at: '2026-03-02T00:00:01Z' })
  await insertFee(sql, app, payment, { kind: 'charge', amount: 49 })
  await sql`update payments set charged_at = '2026-03-01T23:59:58Z', charge_ref = 'ch_1' where id = ${payment}`
  await sql`update payments set licence_id = 'lic_1' where id = ${payment}`
  expect(await settledDays(tables, app)).toEqual(['2026-03-01 eur 1 4900 0 49'])
})

test('while two replicas add up, each payment is seen once by every reader', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  let inserted = 0n
  const done = new AbortController()
  const adding = [1, 2].map(async () => {
    while (!done.signal.aborted) await addUpChanges(sql, 2)
  })
  const watch = (async () => {
    let max = 0n
    while (!done.signal.aborted) {
      const before = inserted
      const [row] = await listPaymentDays(sql, { ...app, ...year })
      const count = row?.count ?? 0n
      expect(count).toBeGreaterThanOrEqual(before > max ? before : max)
      max = count
    }
  })()
  for (let count = 0; count < 100; count += 1) {
    await insertPayment(sql, app)
    inserted += 1n
  }
  done.abort()
  await Promise.all([...adding, watch])
  expect(await days(tables, app)).toEqual(['2026-03-01 eur 100 490000 0 0'])
})
