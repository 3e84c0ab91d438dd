import type { Sql } from '@licensing/database/connect'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { expirable } from '../lifecycle/licence.ts'
import type { Selection } from '../lifecycle/transition-queries.ts'

/** A place in the order in which licences fall due. */
export interface Due {
  id: string
  expires_on: Date | null
}

/**
 * Licences that are past their expiry and have no other purchase to rest on, at most `limit`, in the order in which
 * they fell due and from `after` on: what is behind it is not looked at again. Those that others hold are left for the
 * next sweep.
 */
export const licencesPast = (sql: Sql, after: Due | undefined, limit: number): Selection => sql`
  select l.id, l.status, l.status_reason
  from (
    select licence_id from licence_statuses
    where expires_on <= now() and ${statusIn(sql, expirable)}
      ${after ? sql`and (expires_on, licence_id) > (${after.expires_on}, ${after.id})` : sql``}
    order by expires_on, licence_id offset 0
  ) s cross join lateral (
    select id, status, status_reason from licences
    where id = s.licence_id and expires_on <= now() and ${statusIn(sql, expirable)}
      and not exists (${standingPurchase(sql)})
    for update skip locked
  ) l limit ${limit}`

/** In this order a sweep locks them. */
export const dueOrder = (sql: Sql): Selection => sql`l.expires_on, l.id`

const standingPurchase = (sql: Sql) => sql`
  select from purchases p
  where p.licence_id = s.licence_id and p.fell_at is null and (p.ends_at is null or p.ends_at > now())`

/** Licences past their expiry that have another purchase to rest on, at most `limit`, after one in the same order. */
export async function findTakenOver(sql: Sql, after: Due | undefined, limit: number): Promise<Due[]> {
  return sql<Due[]>`
    select s.licence_id as id, s.expires_on from licence_statuses s
    where s.expires_on <= now() and ${statusIn(sql, expirable)} and exists (${standingPurchase(sql)})
      ${after ? sql`and (s.expires_on, s.licence_id) > (${after.expires_on}, ${after.id})` : sql``}
    order by s.expires_on, s.licence_id limit ${limit}`
}
