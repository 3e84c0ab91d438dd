import type { Sql } from '@licensing/database/connect'
import { fieldsOf } from '@licensing/grpc/fields'
import { ApplicationDaySchema } from '@licensing/proto/licensing'
import { locks } from '@licensing/database/locks'

/** Each count of the contract is a column. */
export const counters = fieldsOf(ApplicationDaySchema).filter((name) => name !== 'day')

/** `day` is null for the sum of all days before the first requested one. */
export type DayRow = Record<(typeof counters)[number], bigint> & { day: string | null }

const names = counters.join(', ')
const sums = counters.map((counter) => `sum(${counter})::bigint as ${counter}`).join(', ')
const additions = counters.map((counter) => `${counter} = d.${counter} + excluded.${counter}`).join(', ')
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
      select day, ${sql.unsafe(names)} from application_day_changes ${until}
    ) change
    group by 1 order by 1 nulls first`
}

/**
 * Adds changes to their days and deletes them, in one statement, on one replica at a time.
 *
 * @returns how many changes were added, at most `limit`
 */
export async function addUp(sql: Sql, limit: number): Promise<number> {
  const [row] = await sql<{ changes: number }[]>`
    with turn as materialized (select pg_try_advisory_xact_lock(${locks.applicationDays}) as mine),
    gone as (
      delete from application_day_changes
      where ctid = any(array(select c.ctid from application_day_changes c, turn where turn.mine limit ${limit}))
      returning application_id, account_id, day, ${sql.unsafe(names)}
    ),
    added as (
      insert into application_days as d (application_id, account_id, day, ${sql.unsafe(names)})
      select application_id, account_id, day, ${sql.unsafe(sums)}
      from gone group by application_id, account_id, day order by application_id, day
      on conflict (application_id, day) do update set ${sql.unsafe(additions)}
    )
    select count(*)::int as changes from gone`
  return row!.changes
}
