import type { Sql } from '@licensing/database/connect'

export async function insertFeeRefund(
  sql: Sql,
  refund: { feeEntryId: string; paymentId: string; amountMinor: bigint },
): Promise<void> {
  await sql`
    insert into fee_refunds (fee_entry_id, payment_id, amount_minor)
    values (${refund.feeEntryId}, ${refund.paymentId}, ${refund.amountMinor})
    on conflict do nothing`
}

export interface DueFeeRefund {
  fee_entry_id: string
  amount_minor: bigint
  attempts: number
  charge_ref: string | null
}

/** Takes the fee refunds that are due; whoever takes one has five minutes before another does. */
export async function claimFeeRefunds(sql: Sql, most: number): Promise<DueFeeRefund[]> {
  return sql<DueFeeRefund[]>`
    update fee_refunds f set attempts = f.attempts + 1, next_at = now() + interval '5 minutes'
    from payments p
    where p.id = f.payment_id and f.fee_entry_id in (
      select fee_entry_id from fee_refunds where done_at is null and next_at <= now()
      order by next_at limit ${most} for update skip locked
    )
    returning f.fee_entry_id, f.amount_minor, f.attempts, p.charge_ref`
}

export async function finishFeeRefund(sql: Sql, feeEntryId: string): Promise<void> {
  await sql`update fee_refunds set done_at = now() where fee_entry_id = ${feeEntryId}`
}

export async function postponeFeeRefund(sql: Sql, feeEntryId: string, delayMs: number): Promise<void> {
  await sql`
    update fee_refunds set next_at = now() + ${delayMs}::int * interval '1 millisecond'
    where fee_entry_id = ${feeEntryId}`
}
