import type { Sql } from '@licensing/database/connect'
import type { Quota } from '@licensing/proto/closed-sets'
import { quotas } from '@licensing/proto/quotas'

/**
 * The quota of an account, as a value in a query.
 *
 * @param account its id, or the column of the query that has it
 */
export function quotaValue(sql: Sql, account: string | { column: string }, quota: Quota) {
  const accountId = typeof account === 'string' ? sql`${account}` : sql(account.column)
  return sql`coalesce(
    (select max_value from account_quotas where account_id = ${accountId} and quota = ${quota}),
    ${quotas[quota].defaultValue}
  )::bigint`
}

/** The quota of an account. */
export async function findQuota(sql: Sql, accountId: string, quota: Quota): Promise<number> {
  const [row] = await sql<{ value: bigint }[]>`select ${quotaValue(sql, accountId, quota)} as value`
  return Number(row!.value)
}

/** Prevents other transactions from changing the quota of an account until this one ends. @returns the quota */
export async function lockQuota(tx: Sql, accountId: string, quota: Quota): Promise<number> {
  const [row] = await tx<{ value: bigint }[]>`
    insert into account_quotas as known (account_id, quota, max_value)
    values (${accountId}, ${quota}, ${quotas[quota].defaultValue})
    on conflict (account_id, quota) do update set max_value = known.max_value returning max_value as value`
  return Number(row!.value)
}

/** Changes the quota of an account. Existing resources stay, even if there are more. */
export async function setQuota(sql: Sql, accountId: string, quota: Quota, max: number): Promise<void> {
  await sql`
    insert into account_quotas (account_id, quota, max_value) values (${accountId}, ${quota}, ${max})
    on conflict (account_id, quota) do update set max_value = excluded.max_value`
}
