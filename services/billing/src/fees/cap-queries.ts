import type { Sql, Transaction } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { stays } from '@licensing/moves/move-queries'

export interface CapRow {
  cap_minor: bigint | null
  currency: string | null
}

/**
 * Locks the caps of accounts, in the order of their ids. The lock serializes fee postings and changes of the cap, so that
 * exactly one of them finds the cap reached.
 */
export async function lockCaps(tx: Transaction, accountIds: string[]): Promise<Map<string, CapRow>> {
  const ids = [...new Set(accountIds)].sort()
  await tx`
    insert into spend_caps (account_id)
    select account_id from unnest(${ids}::text[]) as a (account_id) order by account_id
    on conflict do nothing`
  const rows = await tx<(CapRow & { account_id: string })[]>`
    select account_id, cap_minor, currency from spend_caps
    where account_id = any(${ids}) order by account_id for update`
  return new Map(rows.map((row) => [row.account_id, row]))
}

/** Locks the account's cap for share: until the transaction ends, the cap is neither changed nor reached. */
export async function lockCapForShare(tx: Transaction, accountId: string): Promise<CapRow> {
  await tx`insert into spend_caps (account_id) values (${accountId}) on conflict do nothing`
  const [row] = await tx<CapRow[]>`
    select cap_minor, currency from spend_caps where account_id = ${accountId} for share`
  return row!
}

export async function writeCap(tx: Transaction, accountId: string, cap: CapRow): Promise<void> {
  await tx`
    update spend_caps set cap_minor = ${cap.cap_minor}, currency = ${cap.currency}
    where account_id = ${accountId}`
}

/** Pauses periods. @returns the periods whose cap was reached for the first time, as `account period` */
export async function pausePeriods(
  tx: Transaction,
  periods: { account_id: string; period: string }[],
): Promise<Set<string>> {
  const rows = await tx<{ account_id: string; period: string; first: boolean }[]>`
    insert into cap_periods as c (account_id, period, paused)
    select account_id, period, true
    from ${rowsOf(tx, { account_id: 'text', period: 'text' }, periods)} p order by account_id, period
    on conflict (account_id, period) do update set paused = true
    returning account_id, period, (xmax = 0) as first`
  return new Set(rows.filter((row) => row.first).map((row) => `${row.account_id} ${row.period}`))
}

export async function endPause(tx: Transaction, accountId: string): Promise<void> {
  await tx`update cap_periods set paused = false where account_id = ${accountId} and paused`
}

/** Whether checkouts that cost a fee are paused. A cap of zero is reached at the start of each period. */
export async function isPaused(sql: Sql, accountId: string, period: string): Promise<boolean> {
  const [row] = await sql<{ paused: boolean }[]>`
    select exists (
      select 1 from cap_periods where account_id = ${accountId} and period = ${period} and paused
    ) or exists (
      select 1 from spend_caps where account_id = ${accountId} and cap_minor = 0
    ) as paused`
  return row!.paused
}

/** Accounts with a cap of zero for which the event of this period was not sent. */
export async function findZeroCapsUnreached(sql: Sql, period: string, limit: number): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    select account_id from spend_caps s where cap_minor = 0 and ${stays(sql, 's.account_id')} and not exists (
      select 1 from cap_periods c where c.account_id = s.account_id and c.period = ${period}
    ) order by account_id limit ${limit}`
  return rows.map((row) => row.account_id)
}

export async function findSpent(
  sql: Sql,
  accountId: string,
  period: string,
  currency: string,
): Promise<bigint> {
  const [row] = await sql<{ spent_minor: bigint }[]>`
    select spent_minor from fee_periods
    where account_id = ${accountId} and period = ${period} and currency = ${currency}`
  return row?.spent_minor ?? 0n
}

export interface CapStatus extends CapRow {
  spent_minor: bigint
  reached_at: Date | null
  paused: boolean
}

/** If no cap sets a currency, the spending in the currency of the last charge is shown. */
export async function findCapStatus(sql: Sql, accountId: string, period: string): Promise<CapStatus> {
  const [row] = await sql<CapStatus[]>`
    with cap as (
      select cap_minor, currency from spend_caps where account_id = ${accountId}
    ),
    shown as (
      select coalesce(
        (select currency from cap),
        (
          select currency from fee_entries
          where account_id = ${accountId} and period = ${period}
          order by occurred_at desc, id desc limit 1
        )
      ) as currency
    )
    select (select cap_minor from cap) as cap_minor, shown.currency,
      coalesce(f.spent_minor, 0::bigint) as spent_minor, c.reached_at,
      coalesce(c.paused, false) or coalesce((select cap_minor = 0 from cap), false) as paused
    from shown
    left join fee_periods f
      on f.account_id = ${accountId} and f.period = ${period} and f.currency = shown.currency
    left join cap_periods c on c.account_id = ${accountId} and c.period = ${period}`
  return row!
}
