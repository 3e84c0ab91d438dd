import type { Sql, Transaction } from '@licensing/database/connect'

export interface CapRow {
  cap_minor: bigint | null
  currency: string | null
}

/**
 * The account's cap, locked: fee postings and changes of the cap come one after the other, so that one of them sees
 * the cap reached.
 */
export async function lockCap(tx: Transaction, accountId: string): Promise<CapRow> {
  await tx`insert into spend_caps (account_id) values (${accountId}) on conflict do nothing`
  const [row] = await tx<CapRow[]>`
    select cap_minor, currency from spend_caps where account_id = ${accountId} for update`
  return row!
}

/** The account's cap, shared with other checkouts: it is neither changed nor reached before this transaction ends. */
export async function shareCap(tx: Transaction, accountId: string): Promise<CapRow> {
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

/** Pauses the period. @returns whether its cap was reached for the first time */
export async function pausePeriod(tx: Transaction, accountId: string, period: string): Promise<boolean> {
  const [row] = await tx<{ first: boolean }[]>`
    insert into cap_periods as c (account_id, period, paused) values (${accountId}, ${period}, true)
    on conflict (account_id, period) do update set paused = true
    returning (xmax = 0) as first`
  return row!.first
}

export async function endPause(tx: Transaction, accountId: string): Promise<void> {
  await tx`update cap_periods set paused = false where account_id = ${accountId} and paused`
}

export async function isPaused(sql: Sql, accountId: string, period: string): Promise<boolean> {
  const [row] = await sql<{ paused: boolean }[]>`
    select paused from cap_periods where account_id = ${accountId} and period = ${period}`
  return row?.paused ?? false
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

export interface CapStanding extends CapRow {
  spent_minor: bigint
  reached_at: Date | null
  paused: boolean
}

/** Where no cap names a currency, the spending shown is that of the currency charged last. */
export async function findStanding(sql: Sql, accountId: string, period: string): Promise<CapStanding> {
  const [row] = await sql<CapStanding[]>`
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
      coalesce(f.spent_minor, 0::bigint) as spent_minor, c.reached_at, coalesce(c.paused, false) as paused
    from shown
    left join fee_periods f
      on f.account_id = ${accountId} and f.period = ${period} and f.currency = shown.currency
    left join cap_periods c on c.account_id = ${accountId} and c.period = ${period}`
  return row!
}
