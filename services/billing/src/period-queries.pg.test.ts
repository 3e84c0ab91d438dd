import type { Database } from '@licensing/database/connect'
import { idOf } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { listSessionRows } from './checkout-sessions/session-queries.ts'
import { listPaymentRows } from './payments/payment-queries.ts'
import { occurredIn } from './period-queries.ts'
import type { Period } from './period-queries.ts'
import { listRefundRows } from './refunds/refund-queries.ts'
import { listSaleRows } from './sale-events/sale-event-queries.ts'
import { anApp, givenTables } from '../test/tables.ts'
import type { App } from '../test/tables.ts'

const minute = 60_000
const day = 24 * 60 * minute
const start = Date.parse('2026-03-01T00:00:00Z')

interface Happened {
  recorded: number
  happened: number
}

/** Most rows are recorded at once, some days later, and some before their own time, as with a processor's test clock. */
const rows: Happened[] = Array.from({ length: 240 }, (_, n) => {
  const recorded = start + n * 97 * minute
  const apart = [0, 2_000, 59 * minute, -4 * minute, 0, 61 * minute, 20 * day, -6 * minute, -300 * day, 0][
    n % 10
  ]!
  return { recorded, happened: recorded - apart }
})
const idOfRow = (prefix: IdPrefix, n: number) => idOf(prefix, new Date(rows[n]!.recorded), BigInt(n))

async function givenRows(sql: Database, { accountId, applicationId }: App): Promise<void> {
  const of = { account_id: accountId, application_id: applicationId }
  const sold = { ...of, amount: 100, currency: 'usd', external_ref: 'customer', plan_id: 'pln' }
  const refunded = {
    ...of,
    amount: 1,
    currency: 'usd',
    kind: 'partial_refund',
    status: 'succeeded',
    merchant: 'm',
  }
  const opened = { ...sold, price_id: 'p', mode: 'payment', status: 'open', merchant: 'm' }
  const noFee = { fee_minor: 0, fee_bps: 0, fee_fixed_minor: 0 }
  for (const [n, { recorded, happened }] of rows.entries()) {
    const [at, created_at] = [new Date(happened), new Date(recorded + (n % 3) * 1_000)]
    const times = n % 4 === 0 ? { paid_at: at } : { paid_at: created_at, charged_at: at }
    const payment = { ...sold, ...times, id: idOfRow('pay', n), source_key: `checkout:${n}`, fee_minor: 0 }
    await sql`insert into payments ${sql({ ...payment, purchase_ref: String(n), charge_state: 'none' })}`
    const refund = { ...refunded, id: idOfRow('rfd', n), payment_id: payment.id, ref: `re_${n}` }
    await sql`insert into refunds ${sql({ ...refund, occurred_at: at })}`
    const sale = { ...sold, id: idOfRow('sale', n), sale_id: `s-${n}`, body_hash: Buffer.alloc(0) }
    await sql`insert into sale_events ${sql({ ...sale, occurred_at: at, status: 'provisioned' })}`
    await sql`insert into checkout_sessions ${sql({ ...opened, ...noFee, id: idOfRow('cs', n), created_at })}`
  }
}

const moments = [-400, -21, -1, 0, 3, 8.01, 16, 30, 320].map((days) => new Date(start + days * day))
const periods: Period[] = [undefined, ...moments].flatMap((since) =>
  [undefined, ...moments].map((until) => ({ since, until })),
)

test('a list of a period has every row of it and no other, whenever they were recorded, page by page', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const app = anApp()
  await givenRows(sql, app)
  const lists = {
    pay: listPaymentRows,
    rfd: listRefundRows,
    sale: listSaleRows,
    cs: listSessionRows,
  } as const
  for (const period of periods) {
    for (const [prefix, list] of Object.entries(lists)) {
      const timeOf = ({ recorded, happened }: Happened, n: number) =>
        prefix === 'cs' ? recorded + (n % 3) * 1_000 : happened
      const wanted = rows.flatMap((row, n) => {
        const time = timeOf(row, n)
        const isIn =
          time >= (period.since?.getTime() ?? -Infinity) && time < (period.until?.getTime() ?? Infinity)
        return isIn ? [idOfRow(prefix as IdPrefix, n)] : []
      })
      const found: string[] = []
      for (let beforeId = ''; ;) {
        const page = await list(sql, { ...app, ...period }, { limit: 90, beforeId })
        found.push(...page.slice(0, 90).map((row) => row.id))
        if (page.length <= 90) break
        beforeId = found.at(-1)!
      }
      expect(found, `${prefix} ${JSON.stringify(period)}`).toEqual(wanted.toReversed())
    }
  }
})

test('a page reads only the rows of its period, not all rows before or after it', async () => {
  await using tables = await givenTables()
  const { sql } = tables
  const { accountId, applicationId } = anApp()
  const count = 20_000
  const ids = Array.from({ length: count }, (_, n) => idOf('pay', new Date(start + n * minute), BigInt(n)))
  await sql`
    insert into payments (id, account_id, application_id, source_key, purchase_ref, plan_id, external_ref, amount, currency, fee_minor,
      paid_at, charge_state)
    select id, ${accountId}, ${applicationId}, 'checkout:' || n, n, 'pln', 'customer', 1, 'usd', 0,
      ${new Date(start)}::timestamptz + (n - 1) * interval '1 minute', 'none'
    from unnest(${ids}::text[]) with ordinality r (id, n)`
  await sql`vacuum analyze payments`
  const page = (period: Period, beforeId = ids.at(-1)!) =>
    occurredIn(
      sql,
      { prefix: 'pay', id: sql`id`, time: sql`coalesce(charged_at, paid_at)` },
      period,
      (within) => sql<{ id: string }[]>`
        select id from payments where application_id = ${applicationId} and id < ${beforeId} ${within}
        order by id desc limit 51`,
      51,
    )
  const middle = new Date(start + (count / 2) * minute)
  for (const query of [
    page({ since: middle, until: undefined }, ids[count / 2]),
    page({ since: undefined, until: middle }),
    page({ since: middle, until: new Date(middle.getTime() + 30 * minute) }),
  ]) {
    const [{ 'QUERY PLAN': plan } = { 'QUERY PLAN': '' }] = await sql<{ 'QUERY PLAN': unknown }[]>`
      explain (analyze, format json) ${query}`
    const looked = [...JSON.stringify(plan).matchAll(/"(?:Actual Rows|Rows Removed by Filter)":([\d.]+)/g)]
    expect(Math.max(...looked.map(([, n]) => Number(n)))).toBeLessThan(200)
  }
})
