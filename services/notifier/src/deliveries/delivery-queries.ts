import type { Sql } from '@licensing/database/connect'
import { plainArray } from '../arrays.ts'
import type { Sendable } from '../engine/work.ts'

export interface NewDelivery extends Sendable {
  accountId: string
  eventType: string
  /** With account and sequence, where the event is kept. */
  recordedAt: Date
  sequence: bigint
}

/** Deliveries that are leased to a sender in the transaction that makes them. */
export interface Claim {
  id: string
  leaseMs: number
  deliveryIds: ReadonlySet<string>
}

const mostInserted = 5_000

/** What is not claimed at once waits, and is due now. */
export async function insertDeliveries(sql: Sql, deliveries: NewDelivery[], claim: Claim): Promise<void> {
  for (let from = 0; from < deliveries.length; from += mostInserted) {
    await insertSome(sql, deliveries.slice(from, from + mostInserted), claim)
  }
}

async function insertSome(sql: Sql, deliveries: NewDelivery[], claim: Claim): Promise<void> {
  const { recordedAt, createdAt } = deliveries[0]!
  await sql`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at,
      sequence, created_at, retry_at, due_at, claim_id, claimed_until)
    select id, account_id, application_id, endpoint_id, event_id, event_type, ${recordedAt},
      sequence, ${createdAt}, ${createdAt}, ${createdAt},
      case when claimed = 1 then ${claim.id}::uuid end,
      case when claimed = 1 then clock_timestamp() + ${claim.leaseMs}::int * interval '1 millisecond' end
    from unnest(
      ${plainArray(deliveries.map((delivery) => delivery.id))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.accountId))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.applicationId))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.endpointId))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.eventId))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.eventType))}::text[],
      ${plainArray(deliveries.map((delivery) => delivery.sequence))}::bigint[],
      ${plainArray(deliveries.map((delivery) => Number(claim.deliveryIds.has(delivery.id))))}::smallint[]
    ) as delivery (id, account_id, application_id, endpoint_id, event_id, event_type, sequence, claimed)`
  const waiting = deliveries.filter((delivery) => !claim.deliveryIds.has(delivery.id))
  await lookAt(sql, [...new Set(waiting.map((delivery) => delivery.endpointId))], createdAt)
}

/** Has endpoints looked at no later than `at`. Called after their deliveries were made to wait. */
export async function lookAt(sql: Sql, endpointIds: string[], at: Date): Promise<void> {
  if (endpointIds.length === 0) return
  await sql`
    insert into waiting_endpoints (endpoint_id, look_at)
    select endpoint_id, ${at} from unnest(${plainArray(endpointIds.toSorted())}::text[]) as endpoint_id
    on conflict (endpoint_id) do update set look_at = excluded.look_at
    where waiting_endpoints.look_at > excluded.look_at`
}
