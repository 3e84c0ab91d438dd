import { connect } from '@licensing/database/connect'
import { randomUUID } from 'node:crypto'
import { claimDue } from '../../../../services/notifier/src/dispatch/claim-queries.ts'
import { median } from '../report.ts'
import type { TestBed, Vendor } from './test-bed.ts'

const claimed = 32

/** Inserts `count` due deliveries of one event to the vendor's endpoints. @returns the id of the first endpoint */
export async function givenBacklog(bed: TestBed, vendor: Vendor, count: number): Promise<string> {
  const { sql } = bed
  const { accountId, applicationId } = vendor
  const eventId = `evt_${randomUUID()}`
  const endpoints = await sql<{ id: string }[]>`
    select id from endpoints where application_id = ${applicationId} order by id`
  const endpointIds = endpoints.map(({ id }) => id)
  await sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body)
    values (date_trunc('second', now()), ${accountId}, 1, ${applicationId}, ${eventId}, '{"type":"licence.suspended"}')`
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      created_at, retry_at, due_at)
    select 'dlv_0' || lpad(n::text, 25, '0'), ${accountId}, ${applicationId},
      (${endpointIds}::text[])[1 + n % ${endpointIds.length}::int], ${eventId},
      'licence.suspended', e.recorded_at, 1, now(), at, at
    from generate_series(1, ${count}::bigint) n
    cross join lateral (select now() - interval '1 hour' + n * interval '1 millisecond' as at) due
    cross join (select recorded_at from events where account_id = ${accountId} and id = ${eventId}) e`
  await sql`
    insert into waiting_endpoints (endpoint_id, account_id, next_due_at)
    select endpoint_id, ${accountId}, min(due_at) from deliveries where endpoint_id = any(${endpointIds}) group by 1
    on conflict (endpoint_id) do update set next_due_at = excluded.next_due_at`
  await sql`vacuum analyze deliveries`
  return endpointIds[0]!
}

/** The median time of a claim of this endpoint's deliveries in milliseconds, over `times` claims, without other claims. */
export async function claimCost(bed: TestBed, endpointId: string, times: number): Promise<number> {
  const sql = connect(bed.databaseUrl, { name: 'claims', max: 1 })
  const others = await sql<{ id: string }[]>`
    select endpoint_id as id from waiting_endpoints where endpoint_id <> ${endpointId}`
  const took: number[] = []
  for (let time = 0; time <= times; time += 1) {
    const startedMs = performance.now()
    const { claimed: got } = await claimDue(sql, {
      now: new Date(),
      full: { accounts: [], endpoints: others.map(({ id }) => id) },
      afterAccount: '',
      capacity: () => claimed,
      limit: claimed,
      claimId: randomUUID(),
      leaseMs: 600_000,
      keptSince: new Date(0),
    })
    if (got.length !== claimed) throw new Error(`claimed ${got.length} instead of ${claimed}`)
    if (time > 0) took.push(performance.now() - startedMs)
  }
  await sql.end()
  return median(took)
}
