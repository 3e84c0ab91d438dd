import type { Sql } from '@licensing/database/connect'
import { keptSince } from './retention.ts'

const dayMs = 86_400_000
const weekMs = 7 * dayMs
// A Monday.
const firstWeekMs = Date.UTC(2024, 0, 1)
const weeksAhead = 8

/** Weekly partitions of `events`, by name, with the end of what each holds. */
export async function readPartitions(sql: Sql): Promise<{ name: string; endsAt: Date }[]> {
  const rows = await sql<{ name: string }[]>`
    select c.relname as name from pg_inherits i join pg_class c on c.oid = i.inhrelid
    where i.inhparent = 'events'::regclass order by c.relname`
  return rows.map(({ name }) => ({ name, endsAt: new Date(startOf(name) + weekMs) }))
}

/** Makes the partitions of this week and the next ones where they are missing. @returns their names */
export async function makePartitions(sql: Sql, now: Date): Promise<string[]> {
  const known = new Set((await readPartitions(sql)).map(({ name }) => name))
  const thisWeek = now.getTime() - ((now.getTime() - firstWeekMs) % weekMs)
  // The week before too: a clock that is turned back must not stop the recording of events.
  const starts = Array.from({ length: weeksAhead + 2 }, (_, i) => thisWeek + (i - 1) * weekMs)
  const missing = starts.filter((start) => !known.has(nameOf(start)))
  for (const start of missing) {
    const [from, to] = [new Date(start).toISOString(), new Date(start + weekMs).toISOString()]
    await sql.unsafe(
      `create table if not exists ${nameOf(start)} partition of events for values from ('${from}') to ('${to}')`,
    )
  }
  return missing.map(nameOf)
}

/** Drops the partitions of which all is past retention: no row is deleted one by one. @returns their names */
export async function dropPartitions(sql: Sql, now: Date): Promise<string[]> {
  const past = (await readPartitions(sql)).filter(({ endsAt }) => endsAt <= keptSince(now))
  for (const { name } of past) await sql.unsafe(`drop table if exists ${name}`)
  return past.map(({ name }) => name)
}

function nameOf(startMs: number): string {
  return `events_${new Date(startMs).toISOString().slice(0, 10).replaceAll('-', '')}`
}

function startOf(name: string): number {
  const [, year, month, day] = /^events_(\d{4})(\d{2})(\d{2})$/.exec(name) ?? []
  return Date.UTC(Number(year), Number(month) - 1, Number(day))
}
