import type { Sql, Database } from '@licensing/database/connect'
import { rowsOf } from '@licensing/database/row-queries'
import { stays } from '@licensing/moves/move-queries'
import { transaction } from '@licensing/database/transaction'
import type { AlertKind } from '@licensing/proto/closed-sets'

export interface NewAlert {
  accountId: string
  /** Null if the alert is about the whole account. */
  applicationId: string | null
  endpointId: string | null
  kind: AlertKind
  subject: string
  text: string
}

/** An alert that is to be mailed. */
export interface WaitingAlert {
  id: bigint
  kind: string
  application_id: string | null
  endpoint_id: string | null
  subject: string
  text: string
  created_at: Date
}

/** An alert as it is listed. */
export interface Alert {
  id: bigint
  kind: AlertKind
  application_id: string | null
  endpoint_id: string | null
  text: string
  created_at: Date
  mailed_at: Date | null
}

/** A mail lists at most this many alerts. Further ones are counted. */
export const maxListed = 1_000

/**
 * Inserts alerts, which then wait for the next mail. The number of waiting alerts is bounded: an alert replaces a waiting one
 * of the same kind about the same endpoint, and if more than `maxListed` alerts of an account wait, the oldest ones are only
 * counted in its next mail.
 */
export async function insertAlerts(sql: Sql, given: NewAlert[]): Promise<void> {
  if (given.length === 0) return
  const byEndpoint = given.map((alert, i) => [`${alert.endpointId ?? i} ${alert.kind}`, alert] as const)
  const rows = [...new Map(byEndpoint).values()].map((alert) => ({
    account_id: alert.accountId,
    application_id: alert.applicationId,
    endpoint_id: alert.endpointId,
    kind: alert.kind,
    subject: alert.subject,
    text: alert.text,
  }))
  await sql`
    with added as materialized (
      select * from ${rowsOf(sql, 'alerts', rows)} added
    ), replaced as (
      delete from alerts a using added
      where a.endpoint_id = added.endpoint_id and a.kind = added.kind and a.completed_at is null
    ), unlisted as (
      update alerts set completed_at = clock_timestamp() where completed_at is null and id = any(array(
        select oldest.id from (select account_id, count(*) as count from added group by account_id) account
        cross join lateral (
          select a.id from alerts a
          where a.account_id = account.account_id and a.completed_at is null and not exists (
            select from added where added.endpoint_id = a.endpoint_id and added.kind = a.kind
          )
          order by a.id desc offset greatest(0, ${maxListed}::int - account.count)
        ) oldest
      ))
      returning account_id
    ), counted as (
      insert into alert_mailings as m (account_id, unlisted)
      select account_id, count(*) from unlisted group by account_id order by account_id
      on conflict (account_id) do update set unlisted = m.unlisted + excluded.unlisted
    )
    insert into alerts (account_id, application_id, endpoint_id, kind, subject, text)
    select account_id, application_id, endpoint_id, kind, subject, text from added order by ordinality`
}

/** Alerts that are still to be mailed, oldest first. */
export async function listWaitingAlerts(sql: Sql, accountId: string, limit: number): Promise<WaitingAlert[]> {
  return sql<WaitingAlert[]>`
    select id, kind, application_id, endpoint_id, subject, left(text, 10000) as text, created_at
    from alerts where account_id = ${accountId} and completed_at is null order by id limit ${limit}`
}

/** Lists alerts, newest first. */
export async function findAlerts(
  sql: Sql,
  of: { accountId: string; applicationId?: string; beforeId?: bigint; limit: number },
): Promise<Alert[]> {
  return sql<Alert[]>`
    select id, kind, application_id, endpoint_id, text, created_at, mailed_at
    from alerts where account_id = ${of.accountId}
      ${of.applicationId === undefined ? sql`` : sql`and application_id = ${of.applicationId}`}
      ${of.beforeId === undefined ? sql`` : sql`and id < ${of.beforeId}`}
    order by id desc limit ${of.limit}`
}

/** Data for the alert about a delivery that has used up its attempts. */
export async function findExhausted(
  sql: Sql,
  delivery: { applicationId: string; deliveryId: string },
): Promise<{ account_id: string; url: string; event_id: string; event_type: string }> {
  const [row] = await sql<{ account_id: string; url: string; event_id: string; event_type: string }[]>`
    select d.account_id, e.url, d.event_id, d.event_type
    from deliveries d join endpoints e on e.id = d.endpoint_id
    where d.application_id = ${delivery.applicationId} and d.id = ${delivery.deliveryId}`
  return row!
}

/** The right to mail an account's alerts, for a limited time. */
export interface Lease {
  accountId: string
  number: bigint
  /** How many mails have failed since the last one that was sent. */
  failures: number
  /** Alerts that the account's next mail counts but does not list. */
  unlisted: number
}

/** Accounts with alerts to be mailed. The account that has waited longest is first. */
export async function listDueAccounts(sql: Sql, limit: number): Promise<string[]> {
  // Reads one row of each account from the index, however many alerts it has.
  const rows = await sql<{ account_id: string }[]>`
    with recursive waiting (account_id) as (
      (select account_id from alerts where completed_at is null order by account_id limit 1)
      union all
      select (
        select account_id from alerts where completed_at is null and account_id > waiting.account_id
        order by account_id limit 1
      )
      from waiting where account_id is not null
    )
    select w.account_id from waiting w left join alert_mailings m on m.account_id = w.account_id
    where w.account_id is not null and ${stays(sql, 'w.account_id')} and (m.next_mail_at is null or m.next_mail_at <= clock_timestamp())
    order by m.next_mail_at nulls first, w.account_id limit ${limit}`
  return rows.map((row) => row.account_id)
}

/** @returns undefined if another replica has the lease, or the account's pause has not ended */
export async function leaseMailing(sql: Sql, accountId: string, seconds: number): Promise<Lease | undefined> {
  const [row] = await sql<{ leases: bigint; failures: number; unlisted: number }[]>`
    insert into alert_mailings as m (account_id, leases, next_mail_at)
    values (${accountId}, 1, clock_timestamp() + ${seconds}::int * interval '1 second')
    on conflict (account_id) do update set leases = m.leases + 1, next_mail_at = excluded.next_mail_at
    where m.next_mail_at <= clock_timestamp()
    returning leases, failures, unlisted`
  return row && { accountId, number: row.leases, failures: row.failures, unlisted: row.unlisted }
}

/** Ends the lease. The account's next mail is sent after `seconds`. */
export async function endLease(sql: Sql, lease: Lease, seconds: number, failures: number): Promise<void> {
  await sql`
    update alert_mailings
    set failures = ${failures}, next_mail_at = clock_timestamp() + ${seconds}::int * interval '1 second'
    where account_id = ${lease.accountId} and leases = ${lease.number}`
}

/** Records that the account's mail was sent, with these alerts in its list. */
export async function recordMailed(sql: Database, lease: Lease, ids: bigint[]): Promise<void> {
  await transaction(sql, async (tx) => {
    await tx`update alerts set completed_at = clock_timestamp(), mailed_at = clock_timestamp() where id = any(${ids.map(String)}::bigint[])`
    await tx`update alert_mailings set unlisted = unlisted - ${lease.unlisted}::int where account_id = ${lease.accountId}`
    await endLease(tx, lease, 0, 0)
  })
}

/** Records that these alerts were logged, because there is no address or no mail server. */
export async function recordLogged(sql: Sql, ids: bigint[]): Promise<void> {
  await sql`update alerts set completed_at = clock_timestamp() where id = any(${ids.map(String)}::bigint[])`
}

const keptDays = 90
const maxDeleted = 1_000

/** Deletes alerts that were completed 90 days ago. @returns false if there may be more */
export async function deleteOldAlerts(sql: Sql): Promise<boolean> {
  const deleted = await sql`
    delete from alerts where id = any(array(
      select id from alerts where completed_at < clock_timestamp() - ${keptDays}::int * interval '1 day'
      order by completed_at limit ${maxDeleted}
    ))`
  return deleted.count < maxDeleted
}
