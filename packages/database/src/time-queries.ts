import type { Sql } from './connect.ts'

/** The time by the database's clock, in whole milliseconds. */
export async function databaseTime(sql: Sql): Promise<Date> {
  const [row] = await sql<{ now: Date }[]>`select clock_timestamp()::timestamptz(3) as now`
  return row!.now
}
