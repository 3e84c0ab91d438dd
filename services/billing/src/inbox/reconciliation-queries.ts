import type { Sql } from '@licensing/database/connect'

export interface DueMerchant {
  merchant: string
  reconciled_to: Date
}

/**
 * A merchant that is due. One that no account is connected to, and none has sold through, is looked at once a day, until
 * it is connected again.
 */
export async function claimMerchant(
  sql: Sql,
  intervalMs: number,
): Promise<(DueMerchant & { wanted: boolean }) | undefined> {
  const [row] = await sql<(DueMerchant & { wanted: boolean })[]>`
    update reconciliations r set next_at = now() + case
      when ${isWanted(sql)} then ${intervalMs}::bigint * interval '1 millisecond' else interval '1 day'
    end
    where merchant = (
      select merchant from reconciliations where next_at <= now() order by next_at limit 1
      for update skip locked
    )
    returning merchant, reconciled_to, ${isWanted(sql)} as wanted`
  return row
}

/** From now on, or from where it was left where something has been sold since. */
export async function insertReconciliation(sql: Sql, merchant: string): Promise<void> {
  await sql`
    insert into reconciliations as r (merchant, reconciled_to) values (${merchant}, now())
    on conflict (merchant) do update set
      next_at = least(r.next_at, now()),
      reconciled_to = case when ${isWanted(sql)} then r.reconciled_to else now() end`
}

function isWanted(sql: Sql) {
  return sql`(
    exists (
      select 1 from processor_connections c
      where c.merchant = r.merchant and c.current and c.disconnected_at is null
    ) or exists (
      select 1 from checkout_sessions s where s.merchant = r.merchant and s.checkout_ref is not null
    )
  )`
}

export async function recordReconciled(sql: Sql, merchant: string, to: Date): Promise<void> {
  await sql`
    update reconciliations set reconciled_to = ${to}, failing_since = null where merchant = ${merchant}`
}

export async function recordUnread(sql: Sql, merchant: string): Promise<void> {
  await sql`
    update reconciliations set failing_since = coalesce(failing_since, now()) where merchant = ${merchant}`
}
