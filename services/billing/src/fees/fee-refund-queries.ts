import type { Sql } from '@licensing/database/connect'
import { stays } from '@licensing/moves/move-queries'
import { insertRows } from '@licensing/database/row-queries'

export interface NewFeeRefund {
  fee_entry_id: string
  payment_id: string
  amount_minor: bigint
}

export async function insertFeeRefunds(sql: Sql, refunds: NewFeeRefund[]): Promise<void> {
  await insertRows(sql, 'fee_refunds', refunds, sql`on conflict do nothing`)
}

/**
 * Cancels the fee refunds of these payments, because their credits were reversed. If a refund was attempted before, the row
 * stays open until it is known whether the attempt took effect.
 */
export async function cancelFeeRefunds(sql: Sql, paymentIds: string[]): Promise<void> {
  if (paymentIds.length === 0) return
  await sql`
    update fee_refunds set cancelled_at = now(), done_at = case when attempts = 0 then now() end
    where payment_id = any(${paymentIds}) and done_at is null and cancelled_at is null`
}

export interface DueFeeRefund {
  fee_entry_id: string
  payment_id: string
  purchase_ref: string
  amount_minor: bigint
  attempts: number
  age_ms: number
  /** How long ago it was cancelled; null if it is owed. */
  cancelled_ms: number | null
  /** The charges of the payment. The platform's fee is a part of each. */
  charge_refs: string[]
}

// A lease is longer than a request to the processor takes. If an answer is lost, a repetition does no harm.
const leaseSeconds = 20

/** Leases the fee refund that has been due longest. If the process dies, another one leases it after `leaseSeconds`. */
export async function claimFeeRefund(sql: Sql): Promise<DueFeeRefund | undefined> {
  const [refund] = await sql<DueFeeRefund[]>`
    update fee_refunds f
    set attempts = f.attempts + 1, next_at = now() + ${leaseSeconds}::int * interval '1 second'
    from payments p
    where p.id = f.payment_id and f.fee_entry_id = (
      select fee_entry_id from fee_refunds join payments stays on stays.id = payment_id
      where done_at is null and next_at <= now() and ${stays(sql, 'stays.account_id')}
      order by next_at limit 1 for update of fee_refunds skip locked
    )
    returning f.fee_entry_id, f.payment_id, p.purchase_ref, f.amount_minor, f.attempts,
      case when p.charge_ref is null then '{}' else p.charge_ref || p.other_charge_refs end as charge_refs,
      (extract(epoch from now() - p.paid_at) * 1000)::float8 as age_ms,
      (extract(epoch from now() - f.cancelled_at) * 1000)::float8 as cancelled_ms`
  return refund
}

/** Whether a fee refund is still owed. This is checked right before the fee is refunded. */
export async function isOwed(sql: Sql, feeEntryId: string): Promise<boolean> {
  const rows = await sql`
    select from fee_refunds where fee_entry_id = ${feeEntryId} and cancelled_at is null and done_at is null`
  return rows.count > 0
}

/** Records that the fee was refunded. @returns false if the fee refund was cancelled meanwhile */
export async function finishFeeRefund(sql: Sql, feeEntryId: string): Promise<boolean> {
  const finished = await sql`
    update fee_refunds set done_at = now() where fee_entry_id = ${feeEntryId} and cancelled_at is null`
  return finished.count > 0
}

/** Ends a fee refund for which nothing more can or must be done. */
export async function closeFeeRefund(sql: Sql, feeEntryId: string): Promise<void> {
  await sql`update fee_refunds set done_at = now() where fee_entry_id = ${feeEntryId}`
}

export async function postponeFeeRefund(sql: Sql, feeEntryId: string, delayMs: number): Promise<void> {
  await sql`
    update fee_refunds set next_at = now() + ${delayMs}::int * interval '1 millisecond'
    where fee_entry_id = ${feeEntryId}`
}
