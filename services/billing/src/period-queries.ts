import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Sql, Statement } from '@licensing/database/connect'
import { idOf } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'

/** The time that rows of a list are of; open where a side is absent. */
export interface Period {
  /** Inclusive. */
  since: Date | undefined
  /** Exclusive. */
  until: Date | undefined
}

export function requestedPeriod({
  since,
  until,
}: {
  since?: Timestamp | undefined
  until?: Timestamp | undefined
}): Period {
  return { since: since && timestampDate(since), until: until && timestampDate(until) }
}

// As the indexes of migration 0009 have them.
const aheadMs = -5 * 60_000
const lateMs = 60 * 60_000

/** That a row's time is in a period. */
const inPeriod = (sql: Sql, time: Statement, { since, until }: Period) => sql`
  ${since ? sql`and ${time} >= ${since}` : sql``} ${until ? sql`and ${time} < ${until}` : sql``}`

/** That a row was made in a period: its id begins with its `created_at`, but for what clocks differ by. */
export function createdIn(sql: Sql, prefix: IdPrefix, { since, until }: Period): Statement {
  const from = since && idAt(prefix, since, aheadMs)
  const to = until && idAt(prefix, until, -aheadMs)
  return sql`${inPeriod(sql, sql`created_at`, { since, until })}
    ${from ? sql`and id >= ${from}` : sql``} ${to ? sql`and id < ${to}` : sql``}`
}

/**
 * A list, in order of id, of what happened in a period. Nearly all of it was recorded within the hour after it
 * happened, and so has ids of that time; the rest has indexes of its own.
 *
 * @param columns a row's id, and the time when it happened
 * @param select the list's statement, with a further condition
 */
export function happenedIn<Listed extends object>(
  sql: Sql,
  columns: { prefix: IdPrefix; id: Statement; time: Statement },
  { since, until }: Period,
  select: (within: Statement) => Statement<Listed>,
  rows: number,
): Statement<Listed> {
  const { prefix, id, time } = columns
  if (!since && !until) return select(sql``)
  const from = since && idAt(prefix, since, aheadMs)
  const to = until && idAt(prefix, until, lateMs)
  const within = inPeriod(sql, time, { since, until })
  const usual = sql`${within} ${from ? sql`and ${id} >= ${from}` : sql``} ${to ? sql`and ${id} < ${to}` : sql``}`
  // The literals are the indexes' own: a parameter would hide that they fit.
  const leastId = (plusMs: number) =>
    sql`least_id(${sql.unsafe(`'${prefix}'`)}, ${time}, ${sql.unsafe(String(plusMs))})`
  const ahead = from && sql`${within} and ${id} < ${from} and ${id} < ${leastId(aheadMs)}`
  const late = to && sql`${within} and ${id} >= ${to} and ${id} >= ${leastId(lateMs)}`
  return sql<Listed[]>`
    (${select(usual)})
    ${ahead ? sql`union all (${select(ahead)})` : sql``}
    ${late ? sql`union all (${select(late)})` : sql``}
    order by id desc limit ${rows}`
}

function idAt(prefix: IdPrefix, time: Date, plusMs: number): string {
  return idOf(prefix, new Date(time.getTime() + plusMs), 0n)
}
