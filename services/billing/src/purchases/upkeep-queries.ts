import type { Sql } from '@licensing/database/connect'

export interface Backlog {
  waiting: number
  parked: number
  due: number
  effects: number
  questions: number
}

export async function countBacklog(sql: Sql): Promise<Backlog> {
  const [row] = await sql<Backlog[]>`
    select
      (select count(*) from processor_events where handled_at is null and not parked)::int as waiting,
      (select count(*) from processor_events where parked)::int as parked,
      (select count(*) from purchases where decide_at is not null)::int as due,
      (select count(*) from purchases where send_at is not null)::int as effects,
      (select count(*) from processor_questions where next_at is not null)::int as questions`
  return row!
}

/** What nothing needs any more, a part at a time. @returns how many rows went */
export async function purgeHandled(
  sql: Sql,
  kept: { events: number; facts: number },
  most: number,
): Promise<number> {
  const before = (ms: number) => sql`clock_timestamp() - ${ms}::float8 * interval '1 millisecond'`
  const [events, facts] = await Promise.all([
    sql`
      delete from processor_events where position in (
        select position from processor_events where handled_at < ${before(kept.events)} limit ${most}
      )`,
    sql`
      delete from facts where position in (
        select position from facts where session_id is null and recorded_at < ${before(kept.facts)} limit ${most}
      )`,
  ])
  return events.count + facts.count
}
