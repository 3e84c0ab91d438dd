import type { Database, Sql } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

export interface PartitionRow {
  name: string
  state: 'attached' | 'detaching' | 'detached'
}

/** Weekly partitions of `events`, in order, those too of which the dropping was broken off. */
export async function listPartitionRows(sql: Sql): Promise<PartitionRow[]> {
  return sql<PartitionRow[]>`
    select c.relname as name, case
      when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and c.relname ~ '^events_[0-9]{8}$'
      and c.relnamespace = (select relnamespace from pg_class where oid = 'events'::regclass)
    order by c.relname`
}

/** Attaches an empty table, for which no reader or writer waits, as for `create table … partition of` they would. */
export async function makePartition(sql: Sql, name: string, from: Date, to: Date): Promise<void> {
  await sql.unsafe(`create table if not exists ${name} (like events)`)
  await sql.unsafe(
    `alter table events attach partition ${name} for values from ('${from.toISOString()}') to ('${to.toISOString()}')`,
  )
}

/** Drops a partition as a whole, also one of which the dropping was broken off. Nobody waits. */
export async function dropPartition(sql: Sql, { name, state }: PartitionRow): Promise<void> {
  if (state !== 'detached') {
    const how = state === 'detaching' ? 'finalize' : 'concurrently'
    await sql.unsafe(`alter table events detach partition ${name} ${how}`)
  }
  await sql.unsafe(`drop table ${name}`)
}

/** Partitions are changed on one connection at a time, of all replicas; outside of a transaction, as detaching has to be. */
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
