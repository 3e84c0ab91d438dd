import type { Sql } from '@licensing/database/connect'
import type { PageRequest } from '@licensing/database/page'
import { rowsFor } from '@licensing/database/page'
import type { FeeKind } from '@licensing/proto/closed-sets'

export interface NewFeeEntry {
  id: string
  account_id: string
  application_id: string
  payment_id: string
  kind: FeeKind
  amount_minor: bigint
  currency: string
  period: string
  occurred_at: Date
}

/** @returns false where the payment has an entry of this kind already */
export async function insertFeeEntry(sql: Sql, entry: NewFeeEntry): Promise<boolean> {
  const inserted = await sql`
    insert into fee_entries (id, account_id, application_id, payment_id, kind, amount_minor, currency, period,
      occurred_at)
    values (${entry.id}, ${entry.account_id}, ${entry.application_id}, ${entry.payment_id}, ${entry.kind},
      ${entry.amount_minor}, ${entry.currency}, ${entry.period}, ${entry.occurred_at})
    on conflict (payment_id, kind) do nothing`
  return inserted.count === 1
}

/** @returns what is spent in the period now */
export async function addToPeriod(
  sql: Sql,
  entry: Pick<NewFeeEntry, 'account_id' | 'period' | 'currency' | 'amount_minor'>,
): Promise<bigint> {
  const [row] = await sql<{ spent_minor: bigint }[]>`
    insert into fee_periods as p (account_id, period, currency, spent_minor)
    values (${entry.account_id}, ${entry.period}, ${entry.currency}, ${entry.amount_minor})
    on conflict (account_id, period, currency) do update set spent_minor = p.spent_minor + excluded.spent_minor
    returning spent_minor`
  return row!.spent_minor
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

/** The application whose charge was the latest of a period. */
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

/** What the ledger has on the payments of a session, by payment. */
export async function findFeeKinds(sql: Sql, sessionId: string): Promise<Map<string, Set<FeeKind>>> {
  const rows = await sql<{ payment_id: string; kind: FeeKind }[]>`
    select f.payment_id, f.kind from fee_entries f join payments p on p.id = f.payment_id
    where p.session_id = ${sessionId}`
  return Map.groupBy(rows, (row) => row.payment_id)
    .entries()
    .reduce(
      (kinds, [paymentId, group]) => kinds.set(paymentId, new Set(group.map((row) => row.kind))),
      new Map<string, Set<FeeKind>>(),
    )
}
