import type { Sql } from '@licensing/database/connect'
import { inScope } from '../lifecycle/licence-queries.ts'
import type { LicenceScope } from '../lifecycle/licence-queries.ts'

export interface SessionTimes {
  accountId: string
  applicationId: string
  /** By the database's clock, in milliseconds. */
  nowMs: number
  /** Sessions that started before this time have been ended; 0: none was. */
  sinceMs: number
}

/** The owner of a licence, and the times that decide which of its sessions count. @param scope only the id for a genuine token */
export async function findSessionTimes(
  sql: Sql,
  scope: LicenceScope | { licenceId: string },
): Promise<SessionTimes | undefined> {
  const [times] = await sql<SessionTimes[]>`
    select account_id as "accountId", application_id as "applicationId",
      floor(extract(epoch from clock_timestamp()) * 1000)::float8 as "nowMs",
      coalesce(extract(epoch from customer_sessions_since) * 1000, 0)::float8 as "sinceMs"
    from licences l where ${'accountId' in scope ? inScope(sql, scope) : sql`l.id = ${scope.licenceId}`}`
  return times
}

/** Ends all sessions that have started. @returns the licence's application; undefined if there is no such licence */
export async function endSessions(sql: Sql, scope: LicenceScope): Promise<string | undefined> {
  const [row] = await sql<{ application_id: string }[]>`
    update licences l set customer_sessions_since = greatest(
      date_trunc('milliseconds', clock_timestamp()) + interval '1 millisecond', customer_sessions_since
    )
    where ${inScope(sql, scope)} returning application_id`
  return row?.application_id
}

/** How many activations the customer has freed on this UTC day, and the purchase that governs the licence. */
export async function findCustomerFacts(
  sql: Sql,
  licenceId: string,
): Promise<{ freed: number; purchase_ref: string | null }> {
  const [row] = await sql<{ freed: number; purchase_ref: string | null }[]>`
    select l.governed_by as purchase_ref, coalesce((
      select times from freed_activations f where f.licence_id = l.id and what = 'customer'
        and day = (clock_timestamp() at time zone 'UTC')::date
    ), 0) as freed
    from licences l where l.id = ${licenceId}`
  return row!
}
