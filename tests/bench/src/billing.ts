import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { eventually } from '@licensing/test-support/poll'
import { insertEvent } from '../../../services/billing/src/inbox/inbox-queries.ts'
import { isUsed } from '../../../services/billing/src/stripe/events.ts'
import { givenPaidCheckouts } from './paid-checkouts.ts'
import type { ProcessorEvent } from './paid-checkouts.ts'
import { scaled } from './bench-scale.ts'
import { beside } from './report.ts'
import type { Figure, Section } from './report.ts'
import { startSetting } from './setting.ts'

const lanes = 16

/** The processor's events of many sales, worked off from the inbox, beside the bare insert of the same rows. */
export async function billing(): Promise<Section> {
  await using setting = await startSetting({ simulator: true })
  const { stack } = setting
  const sql = connect(stack.databaseUrls.billing, { name: 'bench', max: 4, statementTimeoutMs: 600_000 })
  const sales = scaled(2_000, 20)
  const events = (await givenPaidCheckouts(stack, sales)).filter(({ type }) => isUsed(type))

  const bareRate = await bareInserts(sql, stack.databaseUrls.billing, events)
  const startedMs = performance.now()
  await putIn(sql, events)
  await eventually(
    async () => {
      const [row] = await sql<{ waiting: number }[]>`
        select count(*)::int as waiting from processor_events where handled_at is null`
      if (row!.waiting > 0) throw new Error(`${row!.waiting} of ${events.length} events are not handled`)
    },
    { timeoutMs: 600_000, intervalMs: 50 },
  )
  const seconds = (performance.now() - startedMs) / 1000
  const [done] = await sql<{ provisioned: number; fees: number }[]>`
    select (select count(*) from checkout_sessions where status = 'provisioned')::int as provisioned,
      (select count(*) from fee_entries where kind = 'charge')::int as fees`
  await sql.end()

  const bare: Figure = { name: 'bare insert of the same rows', value: bareRate, unit: '/s' }
  return {
    title: `Billing: ${events.length} events of ${sales} sales, until each has its licence and its fee`,
    figures: [
      bare,
      beside('events worked off', events.length / seconds, '/s', bare),
      { name: 'sales', value: sales / seconds, unit: '/s' },
      { name: 'sales without a licence', value: sales - done!.provisioned, unit: 'sales' },
      { name: 'sales without their fee', value: sales - done!.fees, unit: 'sales' },
    ],
    notes: ['licensing and the stand-in for the processor share the machine'],
  }
}

/** One insert for each event, as they are received, into a table like the inbox that nobody works on. */
async function bareInserts(sql: Database, url: string, events: ProcessorEvent[]): Promise<number> {
  await sql`create schema bare`
  await sql`create table bare.processor_events (like processor_events including all)`
  const bare = connect(url, { name: 'bench-bare', max: lanes, settings: { search_path: 'bare' } })
  const left = [...events]
  const lane = async () => {
    for (let event = left.pop(); event; event = left.pop()) {
      await insertEvent(bare, { ...event, processor: 'stripe', body: Buffer.from(event.body) })
    }
  }
  // Connections are opened before the clock starts.
  await Promise.all(Array.from({ length: lanes }, () => bare`select pg_sleep(0.05)`))
  const startedMs = performance.now()
  await Promise.all(Array.from({ length: lanes }, lane))
  const perSecond = (events.length * 1000) / (performance.now() - startedMs)
  await bare.end()
  await sql`drop schema bare cascade`
  return perSecond
}

/** All in one statement: what is measured is the work, not their arrival. */
async function putIn(sql: Database, events: ProcessorEvent[]): Promise<void> {
  await sql`
    insert into processor_events (processor, event_id, merchant, type, body)
    select 'stripe', event_id, merchant, type, convert_to(body, 'UTF8')
    from unnest(
      ${events.map((event) => event.eventId)}::text[], ${events.map((event) => event.merchant)}::text[],
      ${events.map((event) => event.type)}::text[], ${events.map((event) => event.body)}::text[]
    ) as event (event_id, merchant, type, body)
    on conflict (processor, event_id) do nothing`
}
