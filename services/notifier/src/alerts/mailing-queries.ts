import type { Database, Sql } from '@licensing/database/connect'
import { transaction } from '@licensing/database/transaction'

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
