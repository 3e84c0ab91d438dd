import type { Sql } from '@licensing/database/connect'

export interface NewAlert {
  accountId: string
  subject: string
  text: string
}

export interface Alert extends NewAlert {
  id: bigint
  createdAt: Date
  tries: number
}

export async function insertAlert(sql: Sql, { accountId, subject, text }: NewAlert): Promise<void> {
  await sql`
    insert into alerts (account_id, subject, text) values (${accountId}, ${subject}, ${text})`
}

/** The next alert to be sent; for `leaseSeconds` nobody else gets it. */
export async function takeAlert(sql: Sql, leaseSeconds: number): Promise<Alert | null> {
  const [alert] = await sql<Alert[]>`
    update alerts
    set tries = tries + 1, next_try_at = clock_timestamp() + ${leaseSeconds}::int * interval '1 second'
    where id = (
      select id from alerts where sent_at is null and next_try_at <= clock_timestamp()
      order by next_try_at limit 1 for update skip locked
    )
    returning id, account_id as "accountId", subject, text, created_at as "createdAt", tries`
  return alert ?? null
}

export async function alertSent(sql: Sql, id: bigint): Promise<void> {
  await sql`update alerts set sent_at = clock_timestamp() where id = ${id}`
}

export async function tryAlertAgain(sql: Sql, id: bigint, inSeconds: number): Promise<void> {
  await sql`
    update alerts set next_try_at = clock_timestamp() + ${inSeconds}::int * interval '1 second' where id = ${id}`
}
