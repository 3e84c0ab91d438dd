import { expect, test } from 'vitest'
import { anApp, givenTables } from '../../test/tables.ts'
import type { App } from '../../test/tables.ts'
import { noteDayChanges } from './day-changes.ts'
import { addUpChanges, listPaymentDays } from './payment-day-queries.ts'

type Tables = Awaited<ReturnType<typeof givenTables>>

const year = { from: '2026-01-01', to: '2026-12-31' }

async function note({ sql }: Tables, { accountId, applicationId }: App, day: string, count: bigint) {
  const sums = { count, gross_minor: count * 100n, refunded_minor: 0n, fee_minor: count }
  await noteDayChanges(sql, [
    { account_id: accountId, application_id: applicationId, day, currency: 'eur', ...sums },
  ])
}

/** Days in short: count, gross, refunded, fee. */
async function days({ sql }: Tables, app: App) {
  const rows = await listPaymentDays(sql, { ...app, ...year })
  return rows.map(
    (row) =>
      `${row.day} ${row.currency} ${row.count} ${row.gross_minor} ${row.refunded_minor} ${row.fee_minor}`,
  )
}

test('days are the same before and after changes are added up, and a day with nothing left is not listed', async () => {
  await using tables = await givenTables()
  const app = anApp()
  await note(tables, app, '2026-03-01', 1n)
  await note(tables, app, '2026-03-02', 1n)
  while ((await addUpChanges(tables.sql, 1)) > 0) {
    // Adds up until no change is left.
  }
  await note(tables, app, '2026-03-01', 2n)
  await note(tables, app, '2026-03-02', -1n)
  await note(tables, anApp(), '2026-03-01', 7n)
  expect(await days(tables, app)).toEqual(['2026-03-01 eur 3 300 0 3'])
  while ((await addUpChanges(tables.sql, 3)) > 0) {
    // As above.
  }
  expect(await days(tables, app)).toEqual(['2026-03-01 eur 3 300 0 3'])
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
    await note(tables, app, '2026-03-01', 1n)
    inserted += 1n
  }
  done.abort()
  await Promise.all([...adding, watch])
  expect(await days(tables, app)).toEqual(['2026-03-01 eur 100 10000 0 100'])
})
