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
