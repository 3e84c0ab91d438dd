import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Sql, Statement } from '@licensing/database/connect'
import { idOf } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'

/** A period by which a list is filtered. A side that is absent is open. */
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

// The indexes `…_ahead` and `…_late` contain the same values.
const aheadMs = -5 * 60_000
const lateMs = 60 * 60_000

/** Condition: the row's time is in the period. */
const inPeriod = (sql: Sql, time: Statement, { since, until }: Period) => sql`
  ${since ? sql`and ${time} >= ${since}` : sql``} ${until ? sql`and ${time} < ${until}` : sql``}`

/**
 * Condition: the row was inserted in the period. Its id starts with its `created_at`, except for differences between
 * clocks.
 */
export function createdIn(sql: Sql, prefix: IdPrefix, { since, until }: Period): Statement {
  const from = since && idAt(prefix, since, aheadMs)
  const to = until && idAt(prefix, until, -aheadMs)
  return sql`${inPeriod(sql, sql`created_at`, { since, until })}
    ${from ? sql`and id >= ${from}` : sql``} ${to ? sql`and id < ${to}` : sql``}`
}

/**
 * Lists the rows of a period, in order of id. Nearly all rows were inserted within an hour after their time, so their ids are
 * in a known range. The others are in the indexes `…_ahead` and `…_late`.
 *
 * @param columns a row's id, and the time when it happened
 * @param select the statement of the list, with a further condition
 */
export function occurredIn<Listed extends object>(
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
  // Literals as in the indexes: with parameters PostgreSQL would not use them.
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
