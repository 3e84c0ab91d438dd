import type { Database, Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'
import { transaction } from '@licensing/database/transaction'

/** What is counted of a day. */
export const counters = [
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
  'activations_new',
  'activations_freed',
  'activations_seen',
] as const

/** Those that the history does not tell. */
const ofChanges: readonly string[] = [
  'activations_new',
  'activations_seen',
] satisfies (typeof counters)[number][]

type Counters = Record<(typeof counters)[number], bigint>

/** `day` is null for all days before the first that is asked for. */
export type DayRow = Counters & { day: string | null }

const listed = (write: (counter: string) => string) => counters.map(write).join(', ')
const names = listed((counter) => counter)
const namesOfHistory = listed((counter) => (ofChanges.includes(counter) ? `0 as ${counter}` : counter))
const sums = listed((counter) => `sum(${counter})::bigint as ${counter}`)
const additions = listed((counter) => `${counter} = d.${counter} + excluded.${counter}`)

/** What happened on the days from one to another, and before them; days on which nothing did are left out. */
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
      select day, ${sql.unsafe(names)} from application_day_changes ${until}
      union all
      select day, ${sql.unsafe(namesOfHistory)} from days_of_history(false) ${until}
    ) change
    group by 1 order by 1 nulls first`
}

/**
 * Adds up what the days do not hold yet: the history since the last time, and changes, which it removes. One replica at a
 * time; what it adds and how far it came commit together.
 *
 * @returns how many changes were added up, at most `most`
 */
export async function addUp(sql: Database, most: number): Promise<number> {
  return transaction(sql, async (tx) => {
    // Before the statements that follow: they see all that its last holder has committed.
    const [turn] = await tx<{ mine: boolean }[]>`
      select pg_try_advisory_xact_lock(${locks.applicationDays}) as mine`
    if (!turn!.mine) return 0
    // A large archive is one transaction, and added up at once.
    await tx`set local statement_timeout = 0`
    if (await isRestored(tx)) await tx`select recount_history()`
    return addUpSome(tx, most)
  })
}

async function addUpSome(tx: Transaction, most: number): Promise<number> {
  const [row] = await tx<{ changes: number }[]>`
    with gone as (
      delete from application_day_changes
      where ctid = any(array(select ctid from application_day_changes limit ${most}))
      returning application_id, account_id, day, ${tx.unsafe(names)}
    ),
    entered as materialized (
      select application_id, account_id, day, ${tx.unsafe(namesOfHistory)} from days_of_history(false)
    ),
    added as (
      insert into application_days as d (application_id, account_id, day, ${tx.unsafe(names)})
      select application_id, account_id, day, ${tx.unsafe(sums)}
      from (
        select application_id, account_id, day, ${tx.unsafe(names)} from gone
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
 * Whether the history is of another server: it has numbers of transactions that are still ahead of this one, or was
 * counted up to one of them.
 */
async function isRestored(sql: Sql): Promise<boolean> {
  const [row] = await sql<{ restored: boolean }[]>`
    select pg_snapshot_xmax(seen_by) > pg_snapshot_xmax(pg_current_snapshot())
      or exists (select from licence_history where xact >= pg_snapshot_xmax(pg_current_snapshot())) as restored
    from counted_history`
  return row!.restored
}
