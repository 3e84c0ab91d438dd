import type { Sql } from '@licensing/database/connect'
import { merchantStays } from '../queues/queue-queries.ts'

export interface DueMerchant {
  merchant: string
  reconciled_to: Date
}

/**
 * Claims a merchant whose comparison is due. A merchant that has no connected account and no sale is checked only once
 * a day, until it is connected again.
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
      select merchant from reconciliations
      where next_at <= now() and ${merchantStays(sql, 'merchant')}
      order by next_at limit 1
      for update skip locked
    )
    returning merchant, reconciled_to, ${isWanted(sql)} as wanted`
  return row
}

/** Compares events from now on. If something was sold through the merchant, it continues where it stopped. */
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
    update reconciliations set reconciled_to = ${to} where merchant = ${merchant}`
}
