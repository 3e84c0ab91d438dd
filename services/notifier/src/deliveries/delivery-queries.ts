import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { sendAlong } from '@licensing/database/transaction'
import type { DueDelivery } from './delivery.ts'
import { deliveryTransitions } from '../delivery-states.ts'
import type { DeliveryOutcome, Transition } from '../delivery-states.ts'

export interface NewDelivery extends DueDelivery {
  account_id: string
  event_type: string
  /** The key of the event, together with account and sequence. */
  recorded_at: Date
  sequence: bigint
  /** The licence that the event is about; null if it is about something else. */
  licence_id: string | null
}

/** The deliveries that a transaction claims for a process when it inserts them. */
export interface Claim {
  id: string
  leaseMs: number
  deliveryIds: ReadonlySet<string>
  /** Endpoints that are paused: nothing looks for their waiting deliveries. */
  paused: ReadonlySet<string>
}

const maxInserted = 5_000

/** Inserts deliveries. A delivery that is not claimed waits and is due now. */
export async function insertDeliveries(sql: Sql, deliveries: NewDelivery[], claim: Claim): Promise<void> {
  for (let from = 0; from < deliveries.length; from += maxInserted) {
    await insertSome(sql, deliveries.slice(from, from + maxInserted), claim)
  }
}

const insertedColumns = {
  id: 'text',
  account_id: 'text',
  application_id: 'text',
  endpoint_id: 'text',
  event_id: 'text',
  event_type: 'text',
  sequence: 'bigint',
  licence_id: 'text',
  claim_id: 'uuid',
} as const

function insertedRow(delivery: NewDelivery, claim: Claim): Record<keyof typeof insertedColumns, unknown> {
  const { id, account_id, application_id, endpoint_id, event_id, event_type, sequence, licence_id } = delivery
  const claim_id = claim.deliveryIds.has(id) ? claim.id : null
  return { id, account_id, application_id, endpoint_id, event_id, event_type, sequence, licence_id, claim_id }
}

async function insertSome(sql: Sql, deliveries: NewDelivery[], claim: Claim): Promise<void> {
  const { recorded_at: recordedAt, created_at: createdAt } = deliveries[0]!
  const rows = deliveries.map((delivery) => insertedRow(delivery, claim))
  const pending = [...Map.groupBy(deliveries, (delivery) => delivery.endpoint_id)].map(
    ([endpoint_id, { length }]) => ({ endpoint_id, pending_change: length }),
  )
  const insert = sql`
    with pending as (
      insert into endpoint_health_changes (endpoint_id, pending_change)
      select endpoint_id, pending_change
      from ${rowsOf(sql, { endpoint_id: 'text', pending_change: 'int' }, pending)} endpoint
    )
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at,
      sequence, licence_id, created_at, retry_at, due_at, claim_id, claimed_until)
    select id, account_id, application_id, endpoint_id, event_id, event_type, ${recordedAt},
      sequence, licence_id, ${createdAt}, ${createdAt}, ${createdAt}, claim_id,
      case when claim_id is not null then clock_timestamp() + ${claim.leaseMs}::int * interval '1 millisecond' end
    from ${rowsOf(sql, insertedColumns, rows)} delivery`
  await sendAlong(sql, insert)
  const waiting = deliveries.filter(
    ({ id, endpoint_id: endpointId }) => !claim.deliveryIds.has(id) && !claim.paused.has(endpointId),
  )
  await lowerNextDueAt(sql, [...new Set(waiting.map((delivery) => delivery.endpoint_id))], createdAt)
}

/** Lowers next_due_at of endpoints to `at`. Call it after the statement that makes their deliveries wait. */
export async function lowerNextDueAt(sql: Sql, endpointIds: string[], at: Date): Promise<void> {
  if (endpointIds.length === 0) return
  await sql`
    insert into waiting_endpoints (endpoint_id, account_id, next_due_at)
    select id, account_id, ${at} from endpoints where id = any(${endpointIds}::text[]) order by id
    on conflict (endpoint_id) do update set next_due_at = excluded.next_due_at
    where waiting_endpoints.next_due_at > excluded.next_due_at`
}

/** `deliveryTransitions` as SQL: the status of a delivery `d` after an outcome, which is a SQL expression. */
export function nextStatus(outcome: string): string {
  const cases = casesOf(({ to }, status) => (to === status ? null : to), 'd.status')
  return `case ${outcome} ${cases} else d.status end`
}

/** `scheduled`, `unchanged`, or null if the outcome cancels the next retry of a delivery `d`. */
export function nextRetry(outcome: string): string {
  return `case ${outcome} ${casesOf(({ retry }) => (retry === 'cancelled' ? null : retry), 'null')} end`
}

/** Only transitions that have a result get a branch: each branch makes every statement slower. */
function casesOf(resultOf: (transition: Transition, status: string) => string | null, otherwise: string) {
  return Object.entries(deliveryTransitions)
    .flatMap(([outcome, statuses]) => {
      const branches = Object.entries(statuses).flatMap(([status, transition]) => {
        const result = resultOf(transition, status)
        return result === null ? [] : [`when '${status}' then '${result}'`]
      })
      if (branches.length === 0) return []
      return [`when '${outcome}' then case d.status ${branches.join(' ')} else ${otherwise} end`]
    })
    .join(' ')
}

/** The status of a delivery `d` after it was abandoned. */
export function statusIfAbandoned(sql: Sql): Statement {
  const outcome: DeliveryOutcome = 'abandoned'
  return sql`${sql.unsafe(nextStatus(`'${outcome}'`))}`
}

/** Assignments of an update of deliveries `d` that abandons them. */
export function abandoned(sql: Sql): Statement {
  return sql`
    status = ${statusIfAbandoned(sql)},
    retry_at = null, due_at = null, replays_due = 0, claim_id = null, claimed_until = null`
}

/**
 * Abandons the pending deliveries of a disabled endpoint: all claimed ones, and up to `limit` others. A claimed delivery
 * loses its claim. The result of its attempt is still recorded, and if it was acknowledged, the delivery is delivered.
 *
 * @returns how many rows were updated
 */
export async function abandonDeliveries(sql: Sql, endpointId: string, limit: number): Promise<number> {
  // The CTE is materialized because of concurrent updates: if a sender has changed a row meanwhile, PostgreSQL evaluates
  // the join again with the new row, and does not find it in a `union all` that the planner has merged into the join.
  const { count } = await sql`
    with pending as materialized (
      (select application_id, id from deliveries
        where endpoint_id = ${endpointId} and claim_id is null and due_at is not null
        limit ${limit})
      union all
      select application_id, id from deliveries where claimed_until is not null and endpoint_id = ${endpointId}
    )
    update deliveries d set ${abandoned(sql)}
    from pending
    where d.application_id = pending.application_id and d.id = pending.id`
  return count
}

// More replays than a person requests at a time.
const maxReplaysDue = 1_000

/** A delivery that is to be sent again. Its body is null if the payload is past retention. */
export type ReplayedDelivery = Omit<NewDelivery, 'body'> & { body: string | null }

export async function findReplayed(
  tx: Sql,
  of: { accountId: string; applicationId: string; id: string; keptSince: Date },
): Promise<ReplayedDelivery | null> {
  const [row] = await tx<ReplayedDelivery[]>`
    select d.id, d.account_id, d.application_id, d.endpoint_id, d.event_id, d.event_type, d.recorded_at,
      d.sequence, d.licence_id, d.created_at, e.body, e.trace_parent, d.attempt_count, d.scheduled_attempts,
      true as is_replay
    from deliveries d left join lateral (
      select body, trace_parent from events e
      where e.account_id = d.account_id and e.sequence = d.sequence and e.recorded_at = d.recorded_at
        and e.recorded_at >= ${of.keptSince}
      limit 1
    ) e on true
    where d.application_id = ${of.applicationId} and d.id = ${of.id} and d.account_id = ${of.accountId}`
  return row ?? null
}

/**
 * Requests one more attempt of a delivery, now. If no process has claimed the delivery, and `claim` includes it, it is claimed
 * at once. If a process has claimed it, the replay follows the attempt in flight. The next retry stays as it is.
 *
 * @returns whether `claim` has the delivery, and how many attempts were made so far
 */
export async function requestReplay(
  tx: Sql,
  { application_id: applicationId, id, endpoint_id: endpointId }: ReplayedDelivery,
  now: Date,
  claim: Claim,
): Promise<{ isClaimed: boolean; attemptCount: number }> {
  const [row] = await tx<{ claim_id: string | null; attempt_count: number }[]>`
    update deliveries
    set replays_due = least(replays_due + 1, ${maxReplaysDue}::int), due_at = least(due_at, ${now}),
      claim_id = case when ${claim.deliveryIds.has(id)} and claim_id is null then ${claim.id}::uuid else claim_id end,
      claimed_until = case when ${claim.deliveryIds.has(id)} and claim_id is null
        then clock_timestamp() + ${claim.leaseMs}::int * interval '1 millisecond' else claimed_until end
    where application_id = ${applicationId} and id = ${id}
    returning claim_id, attempt_count`
  if (row?.claim_id === null) await lowerNextDueAt(tx, [endpointId], now)
  return { isClaimed: row?.claim_id === claim.id, attemptCount: row?.attempt_count ?? 0 }
}
