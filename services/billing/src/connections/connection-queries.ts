import type { Sql } from '@licensing/database/connect'

export interface ConnectionRow {
  account_id: string
  merchant: string
  connected_at: Date
  disconnected_at: Date | null
}

export async function findConnection(sql: Sql, accountId: string): Promise<ConnectionRow | undefined> {
  const [row] = await sql<ConnectionRow[]>`
    select account_id, merchant, connected_at, disconnected_at from processor_connections
    where account_id = ${accountId} and current`
  return row
}

/** Makes this the account's merchant. Connecting the one that is connected changes nothing. */
export async function makeCurrent(sql: Sql, accountId: string, merchant: string): Promise<ConnectionRow> {
  await sql`
    update processor_connections set current = false
    where account_id = ${accountId} and current and merchant <> ${merchant}`
  const [row] = await sql<ConnectionRow[]>`
    insert into processor_connections as c (account_id, merchant, current)
    values (${accountId}, ${merchant}, true)
    on conflict (account_id, merchant) do update set
      current = true,
      connected_at = case when c.current and c.disconnected_at is null then c.connected_at else now() end,
      disconnected_at = null
    returning account_id, merchant, connected_at, disconnected_at`
  return row!
}

export async function insertReconciliation(sql: Sql, merchant: string): Promise<void> {
  await sql`
    insert into reconciliations (merchant, reconciled_to) values (${merchant}, now()) on conflict do nothing`
}

/** The accounts that are or were connected to a merchant. */
export async function accountsOf(sql: Sql, merchant: string): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    select account_id from processor_connections where merchant = ${merchant} order by account_id`
  return rows.map((row) => row.account_id)
}

/** Marks a merchant as withdrawn, unless it was connected again since. @returns the accounts that lost it now */
export async function markDisconnected(sql: Sql, merchant: string, at: Date): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    update processor_connections set disconnected_at = ${at}
    where merchant = ${merchant} and disconnected_at is null and date_trunc('second', connected_at) <= ${at}
    returning account_id`
  return rows.map((row) => row.account_id)
}
