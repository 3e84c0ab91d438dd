import type { Database, Sql } from '@licensing/database/connect'
import {
  dropPartition,
  listPartitionRows,
  makePartition,
  withPartitionLock,
} from './event-partition-queries.ts'
import type { PartitionRow } from './event-partition-queries.ts'
import { keptSince, payloadMs } from '../retention.ts'

const dayMs = 86_400_000
const weekMs = 7 * dayMs
// A Monday.
const firstWeekMs = Date.UTC(2024, 0, 1)
const weeksAhead = 8

interface Partition extends PartitionRow {
  endsAt: Date
}

/** Weekly partitions of `events`, in order. They include partitions whose drop was interrupted. */
export async function listPartitions(sql: Sql): Promise<Partition[]> {
  const rows = await listPartitionRows(sql)
  return rows.map((row) => ({ ...row, endsAt: new Date(startOf(row.name) + weekMs) }))
}

/** Creates the partitions of this week and the next ones that are missing. @returns their names */
export async function makePartitions(sql: Database, now: Date): Promise<string[]> {
  return withPartitionLock(sql, async (connection) => {
    const partitions = await listPartitions(connection)
    const attached = new Set(partitions.filter(({ state }) => state === 'attached').map(({ name }) => name))
    const thisWeek = now.getTime() - ((now.getTime() - firstWeekMs) % weekMs)
    // Includes the week before, so that events are still recorded if the clock is turned back.
    const starts = Array.from({ length: weeksAhead + 2 }, (_, i) => thisWeek + (i - 1) * weekMs)
    const missing = starts.filter((start) => !attached.has(nameOf(start)))
    for (const start of missing) {
      await makePartition(connection, nameOf(start), new Date(start), new Date(start + weekMs))
    }
    return missing.map(nameOf)
  })
}

/** Creates the partitions of events that arrive from another cell. */
export async function makePartitionsOf(
  sql: Database,
  { table, rows }: { table: string; rows: string },
): Promise<void> {
  if (table !== 'events') return
  const times = (JSON.parse(rows) as { recorded_at: string }[]).map((row) => Date.parse(row.recorded_at))
  const weeks = new Set(times.map((time) => Math.floor((time - firstWeekMs) / weekMs)))
  await withPartitionLock(sql, async (connection) => {
    const attached = new Set((await listPartitions(connection)).map(({ name }) => name))
    for (const week of weeks) {
      const start = firstWeekMs + week * weekMs
      if (!attached.has(nameOf(start)))
        await makePartition(connection, nameOf(start), new Date(start), new Date(start + weekMs))
    }
  })
}

/**
 * Drops partitions whose events are all past retention. This deletes no single rows, and no other transaction waits.
 *
 * @returns their names
 */
export async function dropPartitions(sql: Database, now: Date, retentionMs = payloadMs): Promise<string[]> {
  return withPartitionLock(sql, async (connection) => {
    const past = (await listPartitions(connection)).filter(
      ({ endsAt }) => endsAt <= keptSince(now, retentionMs),
    )
    for (const partition of past) await dropPartition(connection, partition)
    return past.map(({ name }) => name)
  })
}

function nameOf(startMs: number): string {
  return `events_${new Date(startMs).toISOString().slice(0, 10).replaceAll('-', '')}`
}

function startOf(name: string): number {
  const [, year, month, day] = /^events_(\d{4})(\d{2})(\d{2})$/.exec(name) ?? []
  return Date.UTC(Number(year), Number(month) - 1, Number(day))
}
