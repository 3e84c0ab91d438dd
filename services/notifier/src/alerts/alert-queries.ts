import type { Sql, Database } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'
import type { AlertKind } from '@licensing/proto/closed-sets'

export interface NewAlert {
  accountId: string
  /** Null where it is about the account as a whole. */
  applicationId: string | null
  endpointId: string | null
  /** Null where an earlier release made it: the database says it then. */
  kind: AlertKind | null
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

export async function insertAlert(sql: Sql, alert: NewAlert): Promise<void> {
  const { accountId, applicationId, endpointId, kind, subject, text } = alert
  await sql`
    insert into alerts (account_id, application_id, endpoint_id, kind, subject, text)
    values (${accountId}, ${applicationId}, ${endpointId}, ${kind}, ${subject}, ${text})`
}

/** Alerts that are still to be mailed, oldest first. */
export async function listWaitingAlerts(sql: Sql, accountId: string, most: number): Promise<WaitingAlert[]> {
  return sql<WaitingAlert[]>`
    select id, kind, application_id, endpoint_id, subject, left(text, 10000) as text, created_at
    from alerts where account_id = ${accountId} and sent_at is null order by id limit ${most}`
}

/** Newest first. */
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

/** What an alert says of the delivery that has used up its attempts. */
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

/** The right to mail an account's alerts, until it runs out. */
export interface Lease {
  accountId: string
  number: bigint
  /** How many mails have failed since the last one that was sent. */
  failures: number
  /** Alerts that the account's next mail counts but does not list. */
  unlisted: number
}

/** Accounts with alerts to be mailed; first the one whose turn was longest ago. */
export async function listDueAccounts(sql: Sql, most: number): Promise<string[]> {
  // From account to account through the index, however many alerts each has.
  const rows = await sql<{ account_id: string }[]>`
    with recursive waiting (account_id) as (
      (select account_id from alerts where sent_at is null order by account_id limit 1)
      union all
      select (
        select account_id from alerts where sent_at is null and account_id > waiting.account_id
        order by account_id limit 1
      )
      from waiting where account_id is not null
    )
    select w.account_id from waiting w left join alert_mailings m on m.account_id = w.account_id
    where w.account_id is not null and (m.next_mail_at is null or m.next_mail_at <= clock_timestamp())
    order by m.next_mail_at nulls first, w.account_id limit ${most}`
  return rows.map((row) => row.account_id)
}

/** @returns undefined if another replica has it, or the account's pause has not ended */
export async function leaseMailing(sql: Sql, accountId: string, seconds: number): Promise<Lease | undefined> {
  const [row] = await sql<{ leases: bigint; failures: number; unlisted: number }[]>`
    insert into alert_mailings as m (account_id, leases, next_mail_at)
    values (${accountId}, 1, clock_timestamp() + ${seconds}::int * interval '1 second')
    on conflict (account_id) do update set leases = m.leases + 1, next_mail_at = excluded.next_mail_at
    where m.next_mail_at <= clock_timestamp()
    returning leases, failures, unlisted`
  return row && { accountId, number: row.leases, failures: row.failures, unlisted: row.unlisted }
}

/** The account's next mail is sent in so many seconds. */
export async function endLease(sql: Sql, lease: Lease, seconds: number, failures: number): Promise<void> {
  await sql`
    update alert_mailings
    set failures = ${failures}, next_mail_at = clock_timestamp() + ${seconds}::int * interval '1 second'
    where account_id = ${lease.accountId} and leases = ${lease.number}`
}

// So many at once that the statement stays short.
const mostUnlisted = 50_000

/**
 * Takes alerts newer than those that a mail lists out of the queue: the mail only counts them.
 *
 * @returns how many it counts, with those of earlier mails that were not sent
 */
export async function takeUnlisted(sql: Database, lease: Lease, newestListed: bigint): Promise<number> {
  const { accountId } = lease
  return transaction(sql, async (tx) => {
    const taken = await tx`
      update alerts set sent_at = clock_timestamp() where id in (
        select id from alerts where account_id = ${accountId} and sent_at is null and id > ${newestListed}
        order by id limit ${mostUnlisted}
      ) and sent_at is null`
    const [row] = await tx<{ unlisted: number }[]>`
      update alert_mailings set unlisted = unlisted + ${taken.count} where account_id = ${accountId}
      returning unlisted`
    return row?.unlisted ?? 0
  })
}

/** The account's mail was sent, with these alerts in its list. */
export async function recordMailed(sql: Database, lease: Lease, ids: bigint[]): Promise<void> {
  await transaction(sql, async (tx) => {
    await tx`update alerts set sent_at = clock_timestamp(), mailed_at = clock_timestamp() where id = any(${ids.map(String)}::bigint[])`
    await tx`update alert_mailings set unlisted = 0 where account_id = ${lease.accountId}`
    await endLease(tx, lease, 0, 0)
  })
}

/** Nothing is left to be done for these alerts, and they were not mailed. */
export async function recordLogged(sql: Sql, ids: bigint[]): Promise<void> {
  await sql`update alerts set sent_at = clock_timestamp() where id = any(${ids.map(String)}::bigint[])`
}
