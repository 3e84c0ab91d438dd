import type { Database, Sql } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

export interface PartitionRow {
  name: string
  state: 'attached' | 'detaching' | 'detached'
}

/** Weekly partitions of `events`, in order. They include partitions whose drop was interrupted. */
export async function listPartitionRows(sql: Sql): Promise<PartitionRow[]> {
  return sql<PartitionRow[]>`
    select c.relname as name, case
      when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and c.relname ~ '^events_[0-9]{8}$'
      and c.relnamespace = (select relnamespace from pg_class where oid = 'events'::regclass)
    order by c.relname`
}

/** Attaches an empty table. Readers and writers do not wait for that, as they would for `create table … partition of`. */
export async function makePartition(sql: Sql, name: string, from: Date, to: Date): Promise<void> {
  await sql.unsafe(`create table if not exists ${name} (like events)`)
  await sql.unsafe(
    `alter table events attach partition ${name} for values from ('${from.toISOString()}') to ('${to.toISOString()}')`,
  )
}

/** Drops a partition, also after an interrupted drop. No other transaction waits. */
export async function dropPartition(sql: Sql, { name, state }: PartitionRow): Promise<void> {
  if (state !== 'detached') {
    const how = state === 'detaching' ? 'finalize' : 'concurrently'
    await sql.unsafe(`alter table events detach partition ${name} ${how}`)
  }
  await sql.unsafe(`drop table ${name}`)
}

/** One connection of all replicas at a time changes partitions. There is no transaction: `detach concurrently` forbids it. */
export async function withPartitionLock<T>(sql: Database, work: (connection: Sql) => Promise<T>): Promise<T> {
  const connection = await sql.reserve()
  try {
    await connection`select pg_advisory_lock(${locks.eventPartitions})`
    return await work(connection)
  } finally {
    await connection`select pg_advisory_unlock(${locks.eventPartitions})`.catch(() => {})
    connection.release()
  }
}
