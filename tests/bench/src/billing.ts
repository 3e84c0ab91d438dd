import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { insertDelivery, insertEvents } from '../../../services/billing/src/inbox/inbox-queries.ts'
import { isUsed } from '../../../services/billing/src/processor/stripe/events.ts'
import { scaled } from './bench-scale.ts'
import { givenMixedLoad, givenPaidCheckouts } from './paid-checkouts.ts'
import type { ProcessorEvent } from './paid-checkouts.ts'
import { beside } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'

const workers = 16

/** How fast billing processes the events of many sales from the inbox, compared with only inserting the same rows. */
export async function billing(): Promise<Section> {
  await using setting = await startSetting({ simulator: true })
  const { stack } = setting
  const sql = connect(stack.databaseUrls.billing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const sales = scaled(4_000, 20)
  const held = await givenPaidCheckouts(stack, sales)
  const events = held.filter(({ type }) => isUsed(type))

  const bareRate = await bareInserts(sql, stack.databaseUrls.billing, events)
  const seconds = await workedOff(sql, events)
  const mixedSales = scaled(700, 20)
  const mixed = await givenMixedLoad(stack, mixedSales, held)
  const mixedEvents = mixed.events.filter(({ type }) => isUsed(type))
  const mixedSeconds = await workedOff(sql, mixedEvents)
  const small = await backlogRate(sql, events[0]!.merchant, scaled(1_000, 20))
  const large = await backlogRate(sql, events[0]!.merchant, scaled(100_000, 40))
  const [done] = await sql<{ provisioned: number; fees: number }[]>`
    select (select count(*) from checkout_sessions where status = 'provisioned')::int as provisioned,
      (select count(*) from fee_entries where kind = 'charge')::int as fees`
  await sql.end()

  const few: Figure = { name: 'events of others’ payments, a backlog of 1,000', value: small, unit: '/s' }
  const bare: Figure = { name: 'bare insert of the same rows', value: bareRate, unit: '/s' }
  return {
    title: `Billing: ${events.length} events of ${sales} sales, until each has its licence and its fee`,
    figures: [
      bare,
      beside('events worked off', events.length / seconds, '/s', bare),
      { name: 'sales', value: sales / seconds, unit: '/s' },
      beside('… of sales, renewals and refunds', mixedEvents.length / mixedSeconds, '/s', bare),
      {
        name: 'sales, renewals and refunds',
        value: (mixedSales + mixed.renewals + mixed.refunds) / mixedSeconds,
        unit: '/s',
      },
      few,
      beside('… a backlog of 100,000', large, '/s', few),
      { name: 'sales without a licence', value: sales + mixedSales - done!.provisioned, unit: 'sales' },
      {
        name: 'payments without their fee',
        value: sales + mixedSales + mixed.renewals - done!.fees,
        unit: 'payments',
      },
    ],
    notes: [
      'licensing and the simulated processor share the machine',
      'a refund waits two seconds for earlier events, which is included in the time of the mixed load',
    ],
  }
}

/** @returns seconds until all events are processed, from when billing has found them, which its own receipt would tell it */
async function workedOff(sql: Database, events: ProcessorEvent[]): Promise<number> {
  await putIn(sql, events)
  const waiting = async () => {
    const rows =
      await sql`select from processor_events where handled_at is null and not dead_lettered limit 10000`
    return rows.length
  }
  const all = await waiting()
  await eventually(
    async () => {
      if ((await waiting()) === all) throw new Error('billing has not looked into its inbox')
    },
    { timeoutMs: 30_000, intervalMs: 20 },
  )
  const startedMs = performance.now()
  await eventually(
    async () => {
      // It does not count the events, because the query must cost almost nothing.
      const [row] = await sql<{ waiting: boolean }[]>`
        select exists (select from processor_events where handled_at is null and not dead_lettered)
          or exists (select from purchases where send_at is not null)
          or exists (select from purchases where decide_at < clock_timestamp() + interval '1 hour')
          or exists (select from processor_questions where next_at < clock_timestamp() + interval '1 hour') as waiting`
      if (row!.waiting)
        throw new Error(`some of ${events.length} events or their purchases are still waiting`)
    },
    { timeoutMs: 600_000, intervalMs: 50 },
  )
  return (performance.now() - startedMs) / 1000
}

let backlogs = 0

/** The rate for a backlog of events of payments that did not come from our checkouts, as of a vendor that also sells elsewhere. */
async function backlogRate(sql: Database, merchant: string, count: number): Promise<number> {
  backlogs += 1
  const object = `{"id":"ch_' || n || '","status":"succeeded","payment_intent":"pi_' || n || '","amount":4900,"amount_captured":4900,"amount_refunded":0,"currency":"usd","created":1793700000,"metadata":{}}`
  await sql.unsafe(`
    insert into processor_events (processor, event_id, merchant, type, body)
    select 'stripe', 'evt_backlog_${backlogs}_' || n, '${merchant}', 'charge.succeeded', convert_to(
      '{"id":"evt_' || n || '","type":"charge.succeeded","created":1793700000,"data":{"object":${object}}}', 'UTF8')
    from generate_series(1, ${count}) n`)
  const startedMs = performance.now()
  await eventually(
    async () => {
      const [row] = await sql<{ waiting: boolean }[]>`
        select exists (select 1 from processor_events where handled_at is null and not dead_lettered) as waiting`
      if (row!.waiting) throw new Error(`some of ${count} events are not handled`)
    },
    { timeoutMs: 600_000, intervalMs: 50 },
  )
  return (count * 1000) / (performance.now() - startedMs)
}

/** Inserts each event with one statement, as on receipt, into a table like the inbox that nothing processes. */
async function bareInserts(sql: Database, url: string, events: ProcessorEvent[]): Promise<number> {
  await sql`create schema bare`
  await sql`create table bare.processor_events (like processor_events including all)`
  const bare = connect(url, { name: 'bench-bare', max: workers, settings: { search_path: 'bare' } })
  const left = [...events]
  const worker = async () => {
    for (let event = left.pop(); event; event = left.pop()) {
      await insertDelivery(bare, { ...event, processor: 'stripe', body: Buffer.from(event.body) })
    }
  }
  // Connections are opened before the clock starts.
  await Promise.all(Array.from({ length: workers }, () => bare`select pg_sleep(0.05)`))
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: workers }, worker))
  const perSecond = (events.length * 1000) / (performance.now() - startedMs)
  await bare.end()
  await sql`drop schema bare cascade`
  return perSecond
}

/** Inserts all events in one statement, because the processing is measured, not the arrival. */
async function putIn(sql: Database, events: ProcessorEvent[]): Promise<void> {
  await insertEvents(
    sql,
    events.map((event) => ({ ...event, processor: 'stripe', body: Buffer.from(event.body) })),
  )
}
