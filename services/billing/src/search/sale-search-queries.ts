import type { Sql } from '@licensing/database/connect'
import type { SearchMatch } from '@licensing/proto/closed-sets'

export interface SaleMatch {
  licence_id: string
  matched: SearchMatch
}

/** The newest licences of a charge, of a checkout session and of a sale in another shop, each exactly. */
export async function findLicencesOf(
  sql: Sql,
  of: { accountId: string; applicationId: string; query: string },
  limit: number,
): Promise<SaleMatch[]> {
  const { accountId, applicationId, query } = of
  const own = sql`application_id = ${applicationId} and account_id = ${accountId} and licence_id is not null`
  return sql<SaleMatch[]>`
    (select licence_id, 'charge_ref' as matched from payments
    where ${own} and coalesce(charge_ref, payment_ref, id) = ${query} order by id desc limit ${limit})
    union all
    select licence_id, 'session_id' from checkout_sessions where id = ${query} and ${own}
    union all
    select licence_id, 'sale_id' from sale_events where sale_id = ${query} and ${own}
    union all
    select licence_id, 'sale_id' from sale_events where id = ${query} and ${own}`
}
