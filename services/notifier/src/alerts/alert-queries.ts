import type { Sql } from '@licensing/database/connect'
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
export interface DueAlert {
  id: bigint
  account_id: string
  subject: string
  text: string
  created_at: Date
  tries: number
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

/** The next alert to be sent; for `leaseSeconds` nobody else gets it. */
export async function takeAlert(sql: Sql, leaseSeconds: number): Promise<DueAlert | null> {
  const [alert] = await sql<DueAlert[]>`
    update alerts
    set tries = tries + 1, next_try_at = clock_timestamp() + ${leaseSeconds}::int * interval '1 second'
    where id = (
      select id from alerts where sent_at is null and next_try_at <= clock_timestamp()
      order by next_try_at limit 1 for update skip locked
    )
    returning id, account_id, subject, text, created_at, tries`
  return alert ?? null
}

/** Nothing is left to be done for an alert, mailed or not. */
export async function alertSent(sql: Sql, id: bigint, isMailed: boolean): Promise<void> {
  await sql`
    update alerts set sent_at = clock_timestamp(), mailed_at = case when ${isMailed} then clock_timestamp() end
    where id = ${id}`
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

export async function tryAlertAgain(sql: Sql, id: bigint, inSeconds: number): Promise<void> {
  await sql`
    update alerts set next_try_at = clock_timestamp() + ${inSeconds}::int * interval '1 second' where id = ${id}`
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
