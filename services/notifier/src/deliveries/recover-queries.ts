import type { Sql } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { rowsOf } from '@licensing/database/row-queries'

/** Which events of an application an endpoint may have missed. */
export interface Recovery {
  accountId: string
  applicationId: string
  endpointId: string
  types: readonly string[]
  /** Plans of the licences that the events are about; null: all. */
  plans: string[] | null
  /** Bounds of the event's created_at: `since` is inclusive, `until` is exclusive. */
  since: Date
  until: Date
  /** Every such event with a retained payload was recorded between these times. */
  recordedFrom: Date
  recordedBefore: Date
}

const maxScanned = 20_000
const maxInserted = 5_000

/** One recovery of an account runs at a time. */
export async function lockRecovery(tx: Sql, accountId: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`recover ${accountId}`}, 0))`
}

/**
 * Sequences of the events that are neither delivered to the endpoint nor pending, in order. A test event is included only if
 * it was sent to this endpoint.
 *
 * @param limit stops soon after this many
 */
export async function findMissed(tx: Sql, recovery: Recovery, limit: number): Promise<bigint[]> {
  const missed: bigint[] = []
  for (let after = 0n; missed.length <= limit;) {
    const { last, found } = await findMissedAfter(tx, recovery, after)
    for (const sequence of found) missed.push(sequence)
    if (last === null) break
    after = last
  }
  return missed
}

async function findMissedAfter(
  tx: Sql,
  {
    accountId,
    applicationId,
    endpointId,
    types,
    plans,
    since,
    until,
    recordedFrom,
    recordedBefore,
  }: Recovery,
  after: bigint,
): Promise<{ last: bigint | null; found: bigint[] }> {
  // Deliveries are looked up event by event, because an endpoint may have millions of other deliveries. The endpoint is in a
  // filter and not in `where`: without statistics, the planner chose the index of the endpoint.
  const [row] = await tx<{ last: bigint | null; found: bigint[] }[]>`
    with scanned as materialized (
      select id, sequence, body, licence_plan_id from events
      where account_id = ${accountId} and application_id = ${applicationId} and sequence > ${after}
        and recorded_at >= ${recordedFrom} and recorded_at < ${recordedBefore}
      order by sequence limit ${maxScanned}
    )
    select (select max(sequence) from scanned) as last, array(
      select scanned.sequence from scanned
      cross join lateral json_to_record(scanned.body::json) as envelope (type text, created_at timestamptz)
      cross join lateral (
        select bool_or(status <> 'failed') filter (where endpoint_id = ${endpointId}) as is_sent_or_pending
        from deliveries where event_id = scanned.id
      ) delivery
      where envelope.created_at >= ${since} and envelope.created_at < ${until}
        and envelope.type = any(${types as string[]}::text[]) and delivery.is_sent_or_pending is not true
        and (${plans}::text[] is null or licence_plan_id is null or licence_plan_id = any(${plans}::text[]))
        and (envelope.type <> 'webhook.test' or delivery.is_sent_or_pending is not null)
      order by scanned.sequence
    ) as found`
  return row!
}

/** Creates a delivery of each of these events, due now in their order. @returns how many */
export async function insertMissed(
  tx: Sql,
  recovery: Recovery,
  sequences: bigint[],
  now: Date,
): Promise<number> {
  let inserted = 0
  for (let from = 0; from < sequences.length; from += maxInserted) {
    const some = sequences.slice(from, from + maxInserted)
    // The due times differ by a microsecond each, and are in the past.
    inserted += await insertSome(tx, recovery, some, now, sequences.length - from)
  }
  await tx`
    insert into endpoint_health_changes (endpoint_id, pending_change) values (${recovery.endpointId}, ${inserted})`
  return inserted
}

async function insertSome(
  tx: Sql,
  { accountId, endpointId, recordedFrom }: Recovery,
  sequences: bigint[],
  now: Date,
  left: number,
): Promise<number> {
  const missed = sequences.map((sequence) => ({ id: newId('dlv'), sequence }))
  // These deliveries have a created_at after the recording of their event, so the statistics do not count them.
  const inserted = await tx`
    insert into deliveries (id, account_id, application_id, endpoint_id, event_id, event_type, recorded_at, sequence,
      licence_id, created_at, retry_at, due_at)
    select missed.id, event.account_id, event.application_id, ${endpointId}, event.id, envelope.type,
      event.recorded_at, event.sequence, nullif(envelope.data #>> '{object,licence_id}', ''),
      greatest(${now}, event.recorded_at + interval '1 millisecond'), due.at, due.at
    from ${rowsOf(tx, { id: 'text', sequence: 'bigint' }, missed)} missed
    cross join lateral (
      select account_id, application_id, id, sequence, recorded_at, body from events
      where account_id = ${accountId} and sequence = missed.sequence and recorded_at >= ${recordedFrom}
      limit 1
    ) event
    cross join lateral json_to_record(event.body::json) as envelope (type text, data json)
    cross join lateral (
      select ${now}::timestamptz - (${left}::bigint - missed.ordinality) * interval '1 microsecond' as at
    ) due`
  return inserted.count
}
