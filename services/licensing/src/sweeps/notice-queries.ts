import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus } from '@licensing/proto/closed-sets'
import { statusIn } from '../lifecycle/licence-queries.ts'
import { expirable } from '../lifecycle/licence.ts'
import { isGovernedByRenewingSubscription } from '../purchases/purchase-queries.ts'

/** The licences of the plan `p` that end within its notice, after its position `n` in the order of their ends. */
const endingAfterPosition = (sql: Sql) => sql`
  select s.licence_id, s.expires_on from licence_statuses s
  where s.plan_id = p.id and ${statusIn(sql, expirable)} and s.expires_on > now()
    and s.expires_on < now() + p.expiring_notice_days * interval '24 hours'
    and (s.expires_on, s.licence_id) > (n.expires_on, n.licence_id)
  order by s.expires_on, s.licence_id`

/** Plans with licences that have come within the notice. */
export async function findPlansToNotify(sql: Sql): Promise<string[]> {
  const rows = await sql<{ id: string }[]>`
    select p.id from plans p join notice_positions n on n.plan_id = p.id
    cross join lateral (${endingAfterPosition(sql)} limit 1) s`
  return rows.map(({ id }) => id)
}

/**
 * Adds the next licences of a plan that have come within the notice to the checks, and moves the plan's position. If
 * another transaction has moved the position, it stays, and a licence is checked twice.
 *
 * @returns the number of licences
 */
export async function queueNoticeChecks(sql: Sql, planId: string, limit: number): Promise<number> {
  const [row] = await sql<{ queued: number }[]>`
    with next as materialized (
      select n.expires_on as from_end, n.licence_id as from_id, s.licence_id, s.expires_on
      from plans p join notice_positions n on n.plan_id = p.id
      cross join lateral (${endingAfterPosition(sql)} limit ${limit}) s
      where p.id = ${planId}
    ),
    queued as (insert into notice_checks (licence_id) select licence_id from next),
    moved as (
      update notice_positions n set expires_on = last.expires_on, licence_id = last.licence_id
      from (select * from next order by expires_on desc, licence_id desc limit 1) last
      where n.plan_id = ${planId} and (n.expires_on, n.licence_id) = (last.from_end, last.from_id)
    )
    select count(*)::int as queued from next`
  return row!.queued
}

export interface NoticeCheck {
  position: bigint
  licence_id: string
  /** Whether this transaction has locked the licence. */
  locked: boolean
}

/** The next licences to check. Locks the licences that no other transaction has locked. */
export async function lockNoticeChecks(sql: Sql, after: bigint, limit: number): Promise<NoticeCheck[]> {
  return sql<NoticeCheck[]>`
    with queued as materialized (
      select position, licence_id from notice_checks where position > ${after} order by position limit ${limit}
    ),
    locked as materialized (
      select id from licences where id in (select licence_id from queued) order by id for update skip locked
    )
    select q.position, q.licence_id, locked.id is not null as locked
    from queued q left join locked on locked.id = q.licence_id order by q.position`
}

/** Deletes checks. The transaction has locked their licences. */
export async function deleteNoticeChecks(sql: Sql, positions: bigint[]): Promise<void> {
  await sql`delete from notice_checks where position = any(${positions.map(String)}::text[]::bigint[])`
}

export interface Expiring {
  id: string
  account_id: string
  application_id: string
  status: LicenceStatus
  expires_on: Date
}

/**
 * Records the notices that are due, each once for a value of `expires_on`. The transaction has locked the licences, in an
 * earlier statement: so this one sees all that was committed before.
 *
 * @returns the licences whose notice is to be sent now
 */
export async function recordNotices(sql: Sql, licenceIds: string[]): Promise<Expiring[]> {
  return sql<Expiring[]>`
    with due as materialized (
      select l.id, l.account_id, l.application_id, l.status, l.expires_on
      from (
        select id, account_id, application_id, plan_id, status, expires_on, governed_by from licences
        where id = any(${licenceIds}::text[]) and ${statusIn(sql, expirable)}
      ) l
      join licence_statuses s on s.licence_id = l.id
      join plans p on p.id = l.plan_id
      join notice_positions n on n.plan_id = p.id
      cross join lateral (select p.expiring_notice_days * interval '24 hours' as length) notice
      where l.expires_on > now() and l.expires_on < now() + notice.length
        and (l.expires_on > s.expires_on_since + notice.length or s.expires_on_since < n.raised_at)
        and not ${isGovernedByRenewingSubscription(sql)}
    ),
    recorded as (
      insert into expiring_notices (expires_on, licence_id) select expires_on, id from due order by expires_on, id
      on conflict do nothing returning licence_id
    )
    select due.id, due.account_id, due.application_id, due.status, due.expires_on
    from due join recorded on recorded.licence_id = due.id order by due.expires_on, due.id`
}

/** Deletes notices of ends that have passed. @returns how many; if `limit` or more, there may be others */
export async function deleteOldNotices(sql: Sql, limit: number): Promise<number> {
  const { count } = await sql`
    delete from expiring_notices where ctid = any(array(
      select ctid from expiring_notices where expires_on <= now()
      order by expires_on limit ${limit} for update skip locked
    ))`
  return count
}
