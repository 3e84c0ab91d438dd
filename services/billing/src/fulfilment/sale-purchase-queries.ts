import type { Transaction } from '@licensing/database/connect'
import { characters } from '@licensing/proto/text'
import { jsonRows } from '../json-rows.ts'
import type { UnprovisionedPurchase } from './effect-queries.ts'

// Licensing names a purchase in at most 255 characters.
const longestSaleId = 255 - 'sale:'.length

/** The name that licensing has always known a sale by, as far as it fits. */
function nameOf({ id, sale_id: saleId }: SalePurchase): string {
  return characters(saleId) <= longestSaleId ? `sale:${saleId}` : id
}

export interface SalePurchase {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  external_ref: string
  occurred_at: Date
  expires_on: Date | null
  sale_id: string
}

/**
 * Sales as purchases: each has landed, by its own time.
 *
 * @param claimMs how long the caller carries them out itself before others do
 */
export async function landSales(tx: Transaction, sales: SalePurchase[], claimMs: number): Promise<void> {
  const rows = jsonRows(sales.map((sale) => ({ ...sale, cause: nameOf(sale) })))
  await tx`
    insert into fulfilments (purchase_ref, account_id, carry_at, ordered_at)
    select id, account_id, clock_timestamp() + ${claimMs}::int * interval '1 millisecond', occurred_at
    from jsonb_to_recordset(${rows}::text::jsonb) as s (id text, account_id text, occurred_at timestamptz)
    order by id
    on conflict do nothing`
  await tx`
    insert into purchase_effects (purchase_ref, effect_key, account_id, application_id, kind, cause, at, ordered_at,
      plan_id, external_ref, ends_at)
    select id, 'landed', account_id, application_id, 'landed', cause, occurred_at, occurred_at, plan_id,
      external_ref, expires_on
    from jsonb_to_recordset(${rows}::text::jsonb) as s (id text, cause text, account_id text, application_id text,
      occurred_at timestamptz, plan_id text, external_ref text, expires_on timestamptz)
    on conflict do nothing`
}

/** @returns those whose failure has not been reported before */
export async function failSales(
  tx: Transaction,
  refused: { purchaseRef: string; reason: string }[],
): Promise<UnprovisionedPurchase[]> {
  if (refused.length === 0) return []
  const rows = await tx<(UnprovisionedPurchase & { is_first: boolean })[]>`
    update sale_events s set failure_reason = r.reason, failed_at = coalesce(s.failed_at, clock_timestamp())
    from (
      select f.id, f.failed_at is null as is_first, r.reason
      from sale_events f
      join unnest(${refused.map((each) => each.purchaseRef)}::text[], ${refused.map((each) => each.reason)}::text[])
        as r (id, reason) on r.id = f.id
    ) r
    where s.id = r.id
    returning s.id as purchase_ref, s.account_id, s.application_id, s.plan_id, s.amount, s.currency, r.is_first`
  return rows.filter((row) => row.is_first)
}
