import type { Sql } from '@licensing/database/connect'
import { transitions } from '../licences/licence.ts'
import type { ChangedLicence } from '../licences/licence.ts'
import { changeManyLicences } from '../licences/transition-queries.ts'

/** Expires licences that are past their expiry, at most `limit`; those that others hold are left for the next time. */
export async function expirePast(sql: Sql, limit: number): Promise<ChangedLicence[]> {
  const selection = sql`
    select l.id, l.status, l.status_reason
    from licence_statuses s join licences l on l.id = s.licence_id
    where s.expires_on <= now() and s.status in ('active', 'suspended', 'downgraded')
      and l.expires_on <= now() and l.status in ('active', 'suspended', 'downgraded')
    order by s.expires_on limit ${limit} for update of l skip locked`
  return changeManyLicences(sql, selection, transitions.expiryPassed, { actor: 'sweep' })
}
