import type { Sql } from '@licensing/database/connect'

export interface NewDeadLetter {
  source: string
  partition: number
  /** The number of its batch in the producer's log. */
  number: bigint
  event_id: string
  account_id: string
  payload: Uint8Array
  trace_parent: string | null
  error: string
}

export interface DeadLetter extends Omit<NewDeadLetter, 'partition' | 'number'> {
  id: bigint
  failed_at: Date
}

export async function insertDeadLetter(tx: Sql, letter: NewDeadLetter): Promise<void> {
  const { source, partition, number, event_id: eventId, account_id: accountId } = letter
  await tx`
    insert into dead_letters (source, partition, number, event_id, account_id, payload, trace_parent, error)
    values (${source}, ${partition}, ${number}, ${eventId}, ${accountId}, ${letter.payload}, ${letter.trace_parent},
      ${letter.error})`
}

/** Which of these events are dead letters. */
export async function findDeadLetters(sql: Sql, source: string, eventIds: string[]): Promise<string[]> {
  const rows = await sql<{ event_id: string }[]>`
    select event_id from dead_letters where source = ${source} and event_id = any(${eventIds})`
  return rows.map((row) => row.event_id)
}

/** Lists dead letters in the order in which they failed. */
export async function listDeadLetters(sql: Sql, after: bigint, limit: number): Promise<DeadLetter[]> {
  return sql<DeadLetter[]>`
    select id, source, event_id, account_id, payload, trace_parent, error, failed_at
    from dead_letters where id > ${after} order by id limit ${limit}`
}

export async function countDeadLetters(sql: Sql): Promise<bigint> {
  const [row] = await sql<{ count: bigint }[]>`select count(*) as count from dead_letters`
  return row!.count
}

/** Removes a dead letter in the transaction that processes it. @returns false if another caller has removed it */
export async function removeDeadLetter(sql: Sql, id: bigint): Promise<boolean> {
  const removed = await sql`delete from dead_letters where id = ${id}`
  return removed.count === 1
}
