import type { Sql, Statement } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'

/** An event as it is stored. */
export interface StoredEvent {
  id: string
  account_id: string
  application_id: string
  sequence: bigint
  body: string
  trace_parent: string | null
  /** The plan of the licence that the event is about; null if it is about no licence. */
  licence_plan_id: string | null
}

/**
 * Takes the next sequence numbers of each account. Other transactions that want numbers of the account wait until this one
 * has ended.
 *
 * @param counts how many numbers to take, by account
 * @returns the last number before the taken ones, by account
 */
export async function takeSequences(sql: Sql, counts: Map<string, number>): Promise<Map<string, bigint>> {
  const wanted = [...counts].map(([account_id, count]) => ({ account_id, wanted: count }))
  const rows = await sql<{ account_id: string; before: bigint }[]>`
    insert into account_sequences as known (account_id, last_sequence)
    select account_id, wanted from ${rowsOf(sql, { account_id: 'text', wanted: 'bigint' }, wanted)} account
    order by account_id
    on conflict (account_id) do update set last_sequence = known.last_sequence + excluded.last_sequence
    returning account_id, last_sequence as before`
  return new Map(rows.map((row) => [row.account_id, row.before - BigInt(counts.get(row.account_id)!)]))
}

const storedColumns = {
  account_id: 'text',
  sequence: 'bigint',
  application_id: 'text',
  id: 'text',
  body: 'text',
  trace_parent: 'text',
  licence_plan_id: 'text',
} as const

export function insertEvents(sql: Sql, recordedAt: Date, events: StoredEvent[]): Statement {
  return sql`
    insert into events (recorded_at, account_id, sequence, application_id, id, body, trace_parent, licence_plan_id)
    select ${recordedAt}, account_id, sequence, application_id, id, body, trace_parent, licence_plan_id
    from ${rowsOf<StoredEvent>(sql, storedColumns, events)} event`
}

/** The ids of these events that were recorded or stored as alerts since a time. */
export async function findRecordedIds(
  sql: Sql,
  events: { id: string; accountId: string; alert: string | null }[],
  since: Date,
): Promise<string[]> {
  const given = events.map(({ id, accountId: account_id, alert }) => ({ id, account_id, alert }))
  const rows = await sql<{ id: string }[]>`
    with asked as (
      select * from ${rowsOf(sql, { id: 'text', account_id: 'text', alert: 'text' }, given)} asked
    )
    select asked.id from asked join events known
      on known.account_id = asked.account_id and known.id = asked.id and known.recorded_at >= ${since}
    union
    select asked.id from asked join alerts
      on alerts.account_id = asked.account_id and alerts.text = asked.alert and alerts.created_at >= ${since}`
  return rows.map(({ id }) => id)
}

/** Events of an account after a sequence, in order, whose payloads are retained. */
export async function findEvents(
  sql: Sql,
  of: { accountId: string; applicationId?: string; after: bigint; keptSince: Date; limit: number },
): Promise<{ sequence: bigint; body: string }[]> {
  return sql<{ sequence: bigint; body: string }[]>`
    select sequence, body from events
    where account_id = ${of.accountId}
      ${of.applicationId === undefined ? sql`` : sql`and application_id = ${of.applicationId}`}
      and sequence > ${of.after} and recorded_at >= ${of.keptSince}
    order by sequence limit ${of.limit}`
}

/** The sequence of an account's latest event; 0 if it has none. */
export async function findLatestSequence(sql: Sql, accountId: string): Promise<bigint> {
  const [row] = await sql<{ last_sequence: bigint }[]>`
    select last_sequence from account_sequences where account_id = ${accountId}`
  return row?.last_sequence ?? 0n
}
