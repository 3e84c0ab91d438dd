import type postgres from 'postgres'

/** How many sessions wait for a lock in this database. Sessions of other databases on the same server are not counted. */
export async function lockWaits(sql: postgres.Sql): Promise<number> {
  const [row] = await sql<{ waiting: number }[]>`
    select count(*)::int as waiting from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'`
  return row!.waiting
}
