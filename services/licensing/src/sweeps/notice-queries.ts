import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { stays } from '@licensing/moves/move-queries'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { expirable } from '../lifecycle/licence.ts'
import { isGovernedByRenewingSubscription } from '../purchases/purchase-queries.ts'

/**
 * The condition that the notice of the licence `l`, its row `s` in `licence_statuses` and its plan `p` is due: its end is
 * near, no notice went out for this end, and it was not near already when it was set, unless the notice is longer since.
 */
const isDue = (sql: Sql) => {
  const notice = sql`p.expiring_notice_days * interval '24 hours'`
  return sql`
    s.expires_on > now() and s.expires_on < now() + ${notice} and s.expires_on is distinct from s.notified_end
    and (s.expires_on > s.expires_on_since + ${notice} or s.expires_on_since < p.notice_raised_at)
    and not ${isGovernedByRenewingSubscription(sql)}`
}

/** Locks the next licences whose notice is due, except those that other transactions have locked. */
export async function lockExpiring(sql: Sql, limit: number): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select l.id
    from plans p
    cross join lateral (
      select s.licence_id, s.expires_on, s.expires_on_since, s.notified_end from licence_statuses s
      where s.plan_id = p.id and ${statusIn(sql, expirable)} and s.expires_on > now()
        and s.expires_on < now() + p.expiring_notice_days * interval '24 hours'
        and s.expires_on is distinct from s.notified_end
      order by s.expires_on, s.licence_id offset 0
    ) s
    cross join lateral (
      select l.id from licences l where l.id = s.licence_id and ${isDue(sql)} and ${stays(sql, 'l.account_id')} for update skip locked
    ) l
    limit ${limit}`
  return rows.map(({ id }) => id)
}

export interface Expiring {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  status: LicenceStatus
  expires_on: Date
}

/**
 * Records the notices that are due. The transaction has locked the licences, in an earlier statement: so this one sees all
 * that was committed before.
 *
 * @returns the licences whose notice is to be sent now
 */
export async function recordNotices(sql: Sql, licenceIds: string[]): Promise<Expiring[]> {
  return sql<Expiring[]>`
    update licence_statuses s set notified_end = s.expires_on
    from licences l join plans p on p.id = l.plan_id
    where s.licence_id = any(${licenceIds}::text[]) and l.id = s.licence_id
      and l.status = any(${expirable}::text[]) and ${isDue(sql)}
    returning l.id, l.account_id, l.application_id, l.plan_id, l.status, l.expires_on`
}
