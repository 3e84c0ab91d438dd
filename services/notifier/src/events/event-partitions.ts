import type { Database, Sql } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { keptSince } from './retention.ts'

const dayMs = 86_400_000
const weekMs = 7 * dayMs
// A Monday.
const firstWeekMs = Date.UTC(2024, 0, 1)
const weeksAhead = 8

interface Partition {
  name: string
  endsAt: Date
  state: 'attached' | 'detaching' | 'detached'
}

/** Weekly partitions of `events`, in order, those too of which the dropping was broken off. */
export async function readPartitions(sql: Sql): Promise<Partition[]> {
  const rows = await sql<{ name: string; state: Partition['state'] }[]>`
    select c.relname as name, case
      when i.inhrelid is null then 'detached' when i.inhdetachpending then 'detaching' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and c.relname ~ '^events_[0-9]{8}$'
      and c.relnamespace = (select relnamespace from pg_class where oid = 'events'::regclass)
    order by c.relname`
  return rows.map(({ name, state }) => ({ name, state, endsAt: new Date(startOf(name) + weekMs) }))
}

/** Makes the partitions of this week and the next ones where they are missing. @returns their names */
export async function makePartitions(sql: Database, now: Date): Promise<string[]> {
  return alone(sql, async (connection) => {
    const partitions = await readPartitions(connection)
    const attached = new Set(partitions.filter(({ state }) => state === 'attached').map(({ name }) => name))
    const thisWeek = now.getTime() - ((now.getTime() - firstWeekMs) % weekMs)
    // The week before too: a clock that is turned back must not stop the recording of events.
    const starts = Array.from({ length: weeksAhead + 2 }, (_, i) => thisWeek + (i - 1) * weekMs)
    const missing = starts.filter((start) => !attached.has(nameOf(start)))
    for (const start of missing) {
      const [from, to] = [new Date(start).toISOString(), new Date(start + weekMs).toISOString()]
      // Attaching an empty table waits for no reader or writer, which `create table … partition of` would.
      await connection.unsafe(`create table if not exists ${nameOf(start)} (like events)`)
      await connection.unsafe(
        `alter table events attach partition ${nameOf(start)} for values from ('${from}') to ('${to}')`,
      )
    }
    return missing.map(nameOf)
  })
}

/**
 * Drops the partitions of which all is past retention: no row is deleted one by one, and nobody waits.
 *
 * @returns their names
 */
export async function dropPartitions(sql: Database, now: Date): Promise<string[]> {
  return alone(sql, async (connection) => {
    const past = (await readPartitions(connection)).filter(({ endsAt }) => endsAt <= keptSince(now))
    for (const { name, state } of past) {
      if (state !== 'detached') {
        const how = state === 'detaching' ? 'finalize' : 'concurrently'
        await connection.unsafe(`alter table events detach partition ${name} ${how}`)
      }
      await connection.unsafe(`drop table ${name}`)
    }
    return past.map(({ name }) => name)
  })
}

async function alone<T>(sql: Database, work: (connection: Sql) => Promise<T>): Promise<T> {
  const connection = await sql.reserve()
  try {
    await connection`select pg_advisory_lock(${locks.eventPartitions})`
    return await work(connection)
  } finally {
    await connection`select pg_advisory_unlock(${locks.eventPartitions})`.catch(() => {})
    connection.release()
  }
}

function nameOf(startMs: number): string {
  return `events_${new Date(startMs).toISOString().slice(0, 10).replaceAll('-', '')}`
}

function startOf(name: string): number {
  const [, year, month, day] = /^events_(\d{4})(\d{2})(\d{2})$/.exec(name) ?? []
  return Date.UTC(Number(year), Number(month) - 1, Number(day))
}
