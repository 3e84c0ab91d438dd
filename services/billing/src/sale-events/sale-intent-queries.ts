import type { Sql } from '@licensing/database/connect'
import type { NewSale } from './sale-event-queries.ts'

// Longer than the request that makes the sale may take, and its retry.
const untilNextMs = 15_000

export async function forgetSaleIntent(
  sql: Sql,
  { application_id: applicationId, sale_id: saleId }: Pick<NewSale, 'application_id' | 'sale_id'>,
): Promise<void> {
  await sql`delete from sale_intents where application_id = ${applicationId} and sale_id = ${saleId}`
}

/** The intent that has waited longest, which no other replica takes for a while. */
export async function claimSaleIntent(sql: Sql): Promise<NewSale | undefined> {
  const [row] = await sql<NewSale[]>`
    update sale_intents set next_at = now() + ${untilNextMs}::int * interval '1 millisecond'
    where (application_id, sale_id) = (
      select application_id, sale_id from sale_intents where next_at <= now()
      order by next_at limit 1 for update skip locked
    )
    returning id, account_id, application_id, sale_id, body_hash, external_ref, plan_id, amount, currency,
      occurred_at, expires_on`
  return row
}
