import type { Sql, Transaction } from '@licensing/database/connect'

export interface ConnectionRow {
  account_id: string
  merchant: string
  connected_at: Date
  disconnected_at: Date | null
}

/** Violated if another account is connected to the merchant. */
export const holderConstraint = 'processor_connections_holder'

export async function findConnection(sql: Sql, accountId: string): Promise<ConnectionRow | undefined> {
  const [row] = await sql<ConnectionRow[]>`
    select account_id, merchant, connected_at, disconnected_at from processor_connections
    where account_id = ${accountId} and current`
  return row
}

/** The current connection. Other transactions cannot end it until this one ends. */
export async function lockConnection(tx: Transaction, accountId: string): Promise<ConnectionRow | undefined> {
  const [row] = await tx<ConnectionRow[]>`
    select account_id, merchant, connected_at, disconnected_at from processor_connections
    where account_id = ${accountId} and current for update`
  return row
}

/** Serializes changes of an account's connections. */
export async function lockConnections(tx: Transaction, accountId: string): Promise<void> {
  await tx`select pg_advisory_xact_lock(hashtextextended(${`connections:${accountId}`}, 0))`
}

/** Whether the account has proven the merchant, did not withdraw access since, and no other account has proven it. */
export async function hasProven(sql: Sql, accountId: string, merchant: string): Promise<boolean> {
  const [row] = await sql<{ proven: boolean }[]>`
    select proven and disconnected_at is null as proven from processor_connections
    where account_id = ${accountId} and merchant = ${merchant}`
  return row?.proven ?? false
}

/**
 * Makes a merchant the account's current merchant and releases the earlier one. If it is already current, nothing
 * changes.
 *
 * @throws the database's error that names `holderConstraint`
 */
export async function makeCurrent(
  tx: Transaction,
  accountId: string,
  merchant: string,
): Promise<ConnectionRow> {
  await tx`
    update processor_connections set current = false, released_at = now()
    where account_id = ${accountId} and current and merchant <> ${merchant}`
  const [row] = await tx<ConnectionRow[]>`
    insert into processor_connections as c (account_id, merchant, current)
    values (${accountId}, ${merchant}, true)
    on conflict (account_id, merchant) do update set
      current = true,
      proven = true,
      released_at = null,
      connected_at = case when c.current and c.disconnected_at is null then c.connected_at else now() end,
      disconnected_at = null
    returning account_id, merchant, connected_at, disconnected_at`
  await tx`
    update processor_connections set proven = false
    where merchant = ${merchant} and account_id <> ${accountId} and proven`
  return row!
}

/**
 * Deletes released connections through which nothing was sold. A connection that was released in the last ten minutes stays,
 * because a checkout may still be opening through it.
 *
 * @returns how many such connections are left
 */
export async function deleteUnused(tx: Transaction, accountId: string): Promise<number> {
  const unused = tx`
    account_id = ${accountId} and not current and not exists (
      select 1 from checkout_sessions s
      where s.merchant = c.merchant and s.account_id = c.account_id and s.checkout_ref is not null
    )`
  await tx`
    delete from processor_connections c where ${unused} and released_at < now() - interval '10 minutes'`
  const [row] = await tx<{ left: number }[]>`
    select count(*)::integer as left from processor_connections c where ${unused}`
  return row!.left
}

/** The accounts that are or were connected to a merchant, without those that have moved to another cell. */
export async function accountsOf(sql: Sql, merchant: string): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    select account_id from processor_connections
    where merchant = ${merchant} and account_id <> all(array(
      select account_id from account_moves where state in ('moved', 'forgotten')
    ))
    order by account_id`
  return rows.map((row) => row.account_id)
}

/**
 * Marks a merchant as disconnected, unless it was connected again since.
 *
 * @returns the current connections that ended
 */
export async function markDisconnected(sql: Sql, merchant: string, at: Date): Promise<ConnectionRow[]> {
  const rows = await sql<(ConnectionRow & { current: boolean })[]>`
    update processor_connections set disconnected_at = ${at}
    where merchant = ${merchant} and disconnected_at is null and date_trunc('second', connected_at) <= ${at}
    returning account_id, merchant, connected_at, disconnected_at, current`
  return rows.filter((row) => row.current)
}
