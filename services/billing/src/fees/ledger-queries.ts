import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import type { FeeKind } from '@licensing/proto/closed-sets'
import { insertRows, rowsOf } from '@licensing/database/row-queries'

export interface NewFeeEntry {
  id: string
  account_id: string
  application_id: string
  payment_id: string
  kind: FeeKind
  /** The refund that the entry follows from; empty for the charge. */
  cause: string
  amount_minor: bigint
  currency: string
  period: string
  occurred_at: Date
}

export async function insertFeeEntries(sql: Sql, entries: NewFeeEntry[]): Promise<void> {
  await insertRows(sql, 'fee_entries', entries)
}

/** @returns the new sums of the entries' periods */
export async function addToPeriods(sql: Sql, entries: NewFeeEntry[]): Promise<PeriodSpent[]> {
  return sql<PeriodSpent[]>`
    insert into fee_periods as p (account_id, period, currency, spent_minor)
    select account_id, period, currency, sum(amount_minor)
    from ${rowsOf(sql, 'fee_entries', entries)} e
    group by account_id, period, currency order by account_id, period, currency
    on conflict (account_id, period, currency) do update set spent_minor = p.spent_minor + excluded.spent_minor
    returning account_id, period, currency, spent_minor`
}

/** The sum of a period's entries. */
export interface PeriodSpent {
  account_id: string
  period: string
  currency: string
  spent_minor: bigint
}

export interface FeeRow {
  id: string
  kind: FeeKind
  amount_minor: bigint
  currency: string
  charge_ref: string
  application_id: string
  period: string
  occurred_at: Date
}

export async function listFeeRows(
  sql: Sql,
  accountId: string,
  page: PageRequest,
  onlyApplicationId: string | undefined,
): Promise<FeeRow[]> {
  return sql<FeeRow[]>`
    select f.id, f.kind, f.amount_minor, f.currency, coalesce(p.charge_ref, p.payment_ref, p.id) as charge_ref,
      f.application_id, f.period, f.occurred_at
    from fee_entries f join payments p on p.id = f.payment_id
    where f.account_id = ${accountId}
      ${onlyApplicationId === undefined ? sql`` : sql`and f.application_id = ${onlyApplicationId}`}
      ${page.beforeId === '' ? sql`` : sql`and f.id < ${page.beforeId}`}
    order by f.id desc limit ${rowsFor(page.limit)}`
}

/** The application of the latest charge in a period. */
export async function latestChargedApplication(
  sql: Sql,
  accountId: string,
  period: string,
): Promise<string | undefined> {
  const [row] = await sql<{ application_id: string }[]>`
    select application_id from fee_entries
    where account_id = ${accountId} and period = ${period} and kind = 'charge'
    order by occurred_at desc, id desc limit 1`
  return row?.application_id
}

export interface ChargeOfFee extends Pick<
  NewFeeEntry,
  'account_id' | 'application_id' | 'currency' | 'period'
> {
  /** The sum of the charge, its credits and its reversals. */
  balance_minor: bigint
}

export async function findChargeOfFee(sql: Sql, paymentId: string): Promise<ChargeOfFee | undefined> {
  const [charge] = await sql<ChargeOfFee[]>`
    select account_id, application_id, currency, period,
      (select sum(amount_minor)::bigint from fee_entries where payment_id = ${paymentId}) as balance_minor
    from fee_entries where payment_id = ${paymentId} and kind = 'charge'`
  return charge
}
