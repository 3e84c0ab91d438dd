import type { Sql } from '@licensing/database/connect'
import { statusIn } from '../licences/licence-queries.ts'
import { expirable } from '../licences/licence.ts'
import type { Selection } from '../licences/transition-queries.ts'

/** A place in the order in which licences fall due. */
export interface Due {
  id: string
  expires_on: Date | null
}

/**
 * Licences that are past their expiry, at most `limit`, in the order in which they fell due and from `after` on: what
 * is behind it is not looked at again. Those that others hold are left for the next sweep.
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
    for update skip locked
  ) l limit ${limit}`
