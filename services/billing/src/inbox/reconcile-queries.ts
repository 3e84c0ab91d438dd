import type { Sql } from '@licensing/database/connect'

export interface DueMerchant {
  merchant: string
  reconciled_to: Date
}

export async function claimMerchant(sql: Sql, intervalMs: number): Promise<DueMerchant | undefined> {
  const [row] = await sql<DueMerchant[]>`
    update reconciliations set next_at = now() + ${intervalMs}::bigint * interval '1 millisecond'
    where merchant = (
      select merchant from reconciliations where next_at <= now() order by next_at limit 1
      for update skip locked
    )
    returning merchant, reconciled_to`
  return row
}

export async function recordReconciled(sql: Sql, merchant: string, to: Date): Promise<void> {
  await sql`update reconciliations set reconciled_to = ${to} where merchant = ${merchant}`
}
