import type { Sql, Transaction } from '@licensing/database/connect'
import { locks } from '@licensing/database/locks'

export interface AccountRow {
  id: string
  name: string
  /** The address for alerts. */
  alert_email: string | null
  /** An address that was set through the API and is not confirmed yet. */
  unconfirmed_alert_email: string | null
  fee_bps: number
  fee_fixed_minor: bigint
  created_at: Date
}

export interface Fee {
  bps: number
  fixedMinor: bigint
}

const select = (sql: Sql) => sql`
  select id, name, alert_email, c.address as unconfirmed_alert_email, fee_bps, fee_fixed_minor, created_at
  from accounts left join alert_email_confirmations c on c.account_id = id`

export async function findAccount(sql: Sql, id: string): Promise<AccountRow | undefined> {
  const [row] = await sql<AccountRow[]>`${select(sql)} where id = ${id}`
  return row
}

/**
 * Takes the lock under which applications and API keys of an account are created, so that concurrent calls count them one
 * after the other. It does not block the insertion of rows that refer to the account.
 *
 * @returns false if there is no such account
 */
export async function lockAccount(tx: Transaction, id: string): Promise<boolean> {
  const rows = await tx`select id from accounts where id = ${id} for no key update`
  return rows.length > 0
}

export async function insertAccount(
  sql: Sql,
  account: { id: string; name: string; alertEmail: string | null; fee: Fee; demo: boolean },
): Promise<void> {
  await sql`
    insert into accounts (id, name, alert_email, fee_bps, fee_fixed_minor, demo)
    values (${account.id}, ${account.name}, ${account.alertEmail}, ${account.fee.bps},
      ${account.fee.fixedMinor}, ${account.demo})`
}

export async function updateName(sql: Sql, id: string, name: string): Promise<void> {
  await sql`update accounts set name = ${name} where id = ${id}`
}

/** Sets the address that receives alerts; null: none. */
export async function updateAlertEmail(sql: Sql, id: string, address: string | null): Promise<void> {
  await sql`update accounts set alert_email = ${address} where id = ${id}`
}

/** Changes the parts that are given. */
export async function updateFee(sql: Sql, id: string, fee: Partial<Fee>): Promise<void> {
  await sql`
    update accounts set fee_bps = coalesce(${fee.bps ?? null}, fee_bps),
      fee_fixed_minor = coalesce(${fee.fixedMinor ?? null}, fee_fixed_minor)
    where id = ${id}`
}

/** The first accounts after `afterId`, oldest first. */
export async function listAccountRows(sql: Sql, afterId: string, limit: number): Promise<AccountRow[]> {
  return sql<AccountRow[]>`${select(sql)} where id > ${afterId} order by id limit ${limit}`
}

export async function findDemoAccount(sql: Sql): Promise<string | undefined> {
  const [row] = await sql<{ id: string }[]>`select id from accounts where demo`
  return row?.id
}

/** Lets one replica bootstrap at a time, until its transaction ends. */
export async function lockBootstrap(sql: Sql): Promise<void> {
  await sql`select pg_advisory_xact_lock(${locks.bootstrap})`
}
