import type { Sql } from '@licensing/database/connect'
import { applicationStays, stays } from '@licensing/moves/move-queries'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { expirable } from '../lifecycle/licence.ts'
import type { Selection } from '../lifecycle/licence-queries.ts'
import { isValidPurchase } from '../purchases/purchase-queries.ts'

/** A position in the order of due licences. */
export interface Due {
  id: string
  expires_on: Date | null
}

/**
 * The next licences after `after` whose end has passed and that have no valid purchase, in the order of their ends.
 * Licences that other transactions have locked are skipped: the next sweep finds them.
 */
export const licencesPast = (sql: Sql, after: Due | undefined, limit: number): Selection => sql`
  select l.id, l.status, 'sweep' as actor
  from (
    select licence_id from licence_statuses
    where expires_on <= now() and ${statusIn(sql, expirable)}
      ${after ? sql`and (expires_on, licence_id) > (${after.expires_on}, ${after.id})` : sql``}
    order by expires_on, licence_id offset 0
  ) s cross join lateral (
    select id, status from licences
    where id = s.licence_id and expires_on <= now() and ${statusIn(sql, expirable)}
      and not exists (${validPurchase(sql)}) and ${stays(sql, 'account_id')}
    for update skip locked
  ) l limit ${limit}`

/** Whether a licence's end has passed. */
export async function isAnyPast(sql: Sql): Promise<boolean> {
  const rows = await sql`
    select from licence_statuses where expires_on <= now() and ${statusIn(sql, expirable)} limit 1`
  return rows.length > 0
}

/** The order in which a sweep locks licences. */
export const dueOrder = (sql: Sql) => sql`l.expires_on, l.id`

const validPurchase = (sql: Sql) => sql`
  select from purchases where licence_id = s.licence_id and ${isValidPurchase(sql)}`

/** The next licences whose end has passed but that have another, valid purchase. */
export async function findEndedPurchases(sql: Sql, after: Due | undefined, limit: number): Promise<Due[]> {
  return sql<Due[]>`
    select s.licence_id as id, s.expires_on from licence_statuses s
    where s.expires_on <= now() and ${statusIn(sql, expirable)} and exists (${validPurchase(sql)})
      and ${applicationStays(sql, 's.application_id')}
      ${after ? sql`and (s.expires_on, s.licence_id) > (${after.expires_on}, ${after.id})` : sql``}
    order by s.expires_on, s.licence_id limit ${limit}`
}
