import type { Sql } from '@licensing/database/connect'
import type { PriceMode } from '@licensing/proto/closed-sets'

export interface PlanScope {
  accountId: string
  applicationId: string
  planId: string
}

export interface PriceRow {
  plan_id: string
  price_id: string
  amount: bigint
  currency: string
  mode: PriceMode
  period_months: number | null
  updates_months: number | null
}

const columns = (sql: Sql) => sql`plan_id, price_id, amount, currency, mode, period_months, updates_months`

export async function findPrice(
  sql: Sql,
  { accountId, applicationId, planId }: PlanScope,
): Promise<PriceRow | undefined> {
  const [row] = await sql<PriceRow[]>`
    select ${columns(sql)} from prices
    where plan_id = ${planId} and application_id = ${applicationId} and account_id = ${accountId}`
  return row
}

export async function findByPriceId(
  sql: Sql,
  { accountId, applicationId }: Pick<PlanScope, 'accountId' | 'applicationId'>,
  priceId: string,
): Promise<PriceRow | undefined> {
  const [row] = await sql<PriceRow[]>`
    select ${columns(sql)} from prices
    where account_id = ${accountId} and price_id = ${priceId} and application_id = ${applicationId}`
  return row
}

/** Only one transaction at a time sets the price of a plan. */
export async function lockPrice(tx: Sql, { planId }: PlanScope): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`price of ${planId}`}, 0))`
}

/** Violates the constraint `prices_price` if another plan of the account has the price. */
export async function putPrice(
  sql: Sql,
  { accountId, applicationId }: Pick<PlanScope, 'accountId' | 'applicationId'>,
  price: PriceRow,
): Promise<PriceRow> {
  const [row] = await sql<PriceRow[]>`
    insert into prices (plan_id, account_id, application_id, price_id, amount, currency, mode, period_months,
      updates_months)
    values (${price.plan_id}, ${accountId}, ${applicationId}, ${price.price_id}, ${price.amount},
      ${price.currency}, ${price.mode}, ${price.period_months}, ${price.updates_months})
    on conflict (plan_id) do update set price_id = excluded.price_id, amount = excluded.amount,
      currency = excluded.currency, mode = excluded.mode, period_months = excluded.period_months,
      updates_months = excluded.updates_months
    returning ${columns(sql)}`
  return row!
}

export async function removePrice(
  sql: Sql,
  { accountId, applicationId, planId }: PlanScope,
): Promise<PriceRow | undefined> {
  const [removed] = await sql<PriceRow[]>`
    delete from prices
    where plan_id = ${planId} and application_id = ${applicationId} and account_id = ${accountId}
    returning ${columns(sql)}`
  return removed
}
