import type { Sql } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

export interface PaymentDayRow {
  day: string
  currency: string
  count: bigint
  gross_minor: bigint
  refunded_minor: bigint
  fee_minor: bigint
}

/** Money by day and currency. Days without payments or refunds are left out. */
export async function listPaymentDays(
  sql: Sql,
  of: { accountId: string; applicationId: string; from: string; to: string },
): Promise<PaymentDayRow[]> {
  const wanted = sql`
    where application_id = ${of.applicationId} and account_id = ${of.accountId}
      and day between ${of.from}::date and ${of.to}::date`
  return sql<PaymentDayRow[]>`
    select day::text, currency, sum(count)::bigint as count, sum(gross_minor)::bigint as gross_minor,
      sum(refunded_minor)::bigint as refunded_minor, sum(fee_minor)::bigint as fee_minor
    from (
      select day, currency, count, gross_minor, refunded_minor, fee_minor from payment_days ${wanted}
      union all
      select day, currency, count, gross_minor, refunded_minor, fee_minor from payment_day_changes ${wanted}
    ) change
    group by 1, 2
    having (sum(count), sum(gross_minor), sum(refunded_minor), sum(fee_minor)) <> (0, 0, 0, 0)
    order by 1, 2`
}

/**
 * Adds changes to their days and deletes them, in one statement, on one replica at a time.
 *
 * @returns how many changes were added
 */
export async function addUpChanges(sql: Sql, limit: number): Promise<number> {
  const [row] = await sql<{ changes: number }[]>`
    with turn as materialized (select pg_try_advisory_xact_lock(${locks.paymentDays}) as mine),
    gone as (
      delete from payment_day_changes
      where ctid = any(array(select c.ctid from payment_day_changes c, turn where turn.mine limit ${limit}))
      returning application_id, account_id, day, currency, count, gross_minor, refunded_minor, fee_minor
    ),
    added as (
      insert into payment_days as d (application_id, account_id, day, currency, count, gross_minor, refunded_minor,
        fee_minor)
      select application_id, account_id, day, currency, sum(count), sum(gross_minor), sum(refunded_minor),
        sum(fee_minor)
      from gone group by 1, 2, 3, 4 order by 1, 3, 4
      on conflict (application_id, day, currency) do update set count = d.count + excluded.count,
        gross_minor = d.gross_minor + excluded.gross_minor,
        refunded_minor = d.refunded_minor + excluded.refunded_minor, fee_minor = d.fee_minor + excluded.fee_minor
    )
    select count(*)::int as changes from gone`
  return row!.changes
}
