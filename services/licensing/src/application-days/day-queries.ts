import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { transaction, withoutTimeLimit } from '@licensing/database/transaction'

/** The counters of a day that come from the history of licences. */
export const historyCounters = [
  'issued',
  'imported',
  'created',
  'suspended',
  'reactivated',
  'revoked',
  'expired',
  'retired',
  'downgraded',
  'active_change',
  'activations_freed',
] as const

/** The counters that triggers on activations write into `application_day_changes`. */
export const changeCounters = ['activations_new', 'activations_seen'] as const

const counters = [...historyCounters, ...changeCounters]

/** `day` is null for the sum of all days before the first requested one. */
export type DayRow = Record<(typeof counters)[number], bigint> & { day: string | null }

const names = counters.join(', ')
const sums = counters.map((counter) => `sum(${counter})::bigint as ${counter}`).join(', ')
const additions = counters.map((counter) => `${counter} = d.${counter} + excluded.${counter}`).join(', ')
/** The counters in a select list, for a source that has only the counters in `own`. */
const namesOf = (own: readonly string[]) =>
  counters.map((counter) => (own.includes(counter) ? counter : `0 as ${counter}`)).join(', ')
const namesOfHistory = namesOf(historyCounters)
const namesOfChanges = namesOf(changeCounters)

/** The counts of the days `from` to `to`, and the sum of all days before. Days without changes have no row. */
export async function listDays(
  sql: Sql,
  of: { accountId: string; applicationId: string; from: string; to: string },
): Promise<DayRow[]> {
  const { accountId, applicationId, from, to } = of
  const until = sql`
    where application_id = ${applicationId} and account_id = ${accountId} and day <= ${to}::date`
  return sql<DayRow[]>`
    select case when day >= ${from}::date then day::text end as day, ${sql.unsafe(sums)}
    from (
      select day, ${sql.unsafe(names)} from application_days ${until}
      union all
      select day, ${sql.unsafe(namesOfChanges)} from application_day_changes ${until}
      union all
      select day, ${sql.unsafe(namesOfHistory)} from days_of_history(false) ${until}
    ) change
    group by 1 order by 1 nulls first`
}

/**
 * Adds up the changes that are not in the days yet: the history since the last time, and the rows of
 * `application_day_changes`, which it then deletes. One replica at a time does this. The sums and the position in the history
 * are committed together.
 *
 * @returns the number of changes that it added, at most `limit`
 */
export async function addUp(sql: Database, limit: number): Promise<number> {
  return transaction(sql, async (tx) => {
    // A statement of its own, so that the next ones see everything that the previous holder committed.
    const [lock] = await tx<{ acquired: boolean }[]>`
      select pg_try_advisory_xact_lock(${locks.applicationDays}) as acquired`
    if (!lock!.acquired) return 0
    // A large archive is one transaction, whose entries are added all at once.
    await withoutTimeLimit(tx)
    if (await isRestored(tx)) await tx`select recount_history()`
    return addUpSome(tx, limit)
  })
}

async function addUpSome(tx: Transaction, limit: number): Promise<number> {
  const [row] = await tx<{ changes: number }[]>`
    with gone as (
      delete from application_day_changes
      where ctid = any(array(select ctid from application_day_changes limit ${limit}))
      returning application_id, account_id, day, ${tx.unsafe(changeCounters.join(', '))}
    ),
    entered as materialized (
      select application_id, account_id, day, ${tx.unsafe(namesOfHistory)} from days_of_history(false)
    ),
    added as (
      insert into application_days as d (application_id, account_id, day, ${tx.unsafe(names)})
      select application_id, account_id, day, ${tx.unsafe(sums)}
      from (
        select application_id, account_id, day, ${tx.unsafe(namesOfChanges)} from gone
        union all
        select application_id, account_id, day, ${tx.unsafe(names)} from entered
      ) change
      group by application_id, account_id, day order by application_id, day
      on conflict (application_id, day) do update set ${tx.unsafe(additions)}
    ),
    moved_on as (
      update counted_history set seen_by = pg_current_snapshot() where exists (select from entered)
    )
    select count(*)::int as changes from gone`
  return row!.changes
}

/**
 * Whether the database was restored from another server: then the history, or the position in it, has transaction numbers
 * that this server has not reached.
 */
async function isRestored(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ restored: boolean }[]>`
    select pg_snapshot_xmax(seen_by) > pg_snapshot_xmax(pg_current_snapshot())
      or exists (select from licence_history where xact >= pg_snapshot_xmax(pg_current_snapshot())) as restored
    from counted_history`
  return row!.restored
}
