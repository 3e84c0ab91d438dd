import type { Sql, Transaction } from '@licensing/database/connect'
import type { RefundFact } from '../processors/facts.ts'
import { learnCharge } from './charge-facts.ts'
import type { Subject } from './record-fact.ts'

export interface RefundFactRow {
  refund_ref: string
  payment_ref: string
  amount: bigint
  currency: string
  created_at: Date
  status: RefundFact['status']
  succeeded: boolean
  failed_at: Date | null
}

export async function recordRefund(
  tx: Transaction,
  merchant: string,
  fact: RefundFact,
  ripeAt: Date,
): Promise<Subject> {
  const { chargeRef, refundRef } = fact
  const paymentRef =
    chargeRef === undefined ? fact.paymentRef : await learnCharge(tx, merchant, chargeRef, fact.paymentRef)
  if (paymentRef === undefined) return {}
  const covered = await adoptDerived(tx, merchant, paymentRef, fact)
  const succeeded = fact.status === 'succeeded' || fact.hadSucceeded
  const failedAt = fact.status === 'failed' || fact.status === 'canceled' ? fact.at : null
  await tx`
    insert into refund_facts as r (merchant, refund_ref, payment_ref, charge_ref, amount, currency, created_at,
      status, succeeded, failed_at, covered, ripe_at)
    values (${merchant}, ${refundRef}, ${paymentRef}, ${chargeRef ?? null}, ${fact.amount}, ${fact.currency},
      ${fact.createdAt}, ${fact.status}, ${succeeded}, ${failedAt}, ${covered}, ${ripeAt})
    on conflict (merchant, refund_ref) do update set
      status = case
        when r.status in ('failed', 'canceled') or excluded.status = 'pending' then r.status
        else excluded.status
      end,
      succeeded = r.succeeded or excluded.succeeded,
      failed_at = least(r.failed_at, excluded.failed_at),
      charge_ref = coalesce(r.charge_ref, excluded.charge_ref),
      ripe_at = least(r.ripe_at, excluded.ripe_at)`
  return { paymentRef }
}

/**
 * A refund that had been inferred from the charge's total is told at last: of the same amount, it takes the place of
 * what was inferred; otherwise it is part of it.
 *
 * @returns whether it counts for nothing itself
 */
async function adoptDerived(
  tx: Transaction,
  merchant: string,
  paymentRef: string,
  fact: RefundFact,
): Promise<boolean> {
  const known = await tx<{ refund_ref: string; amount: bigint; derived: boolean; covered: boolean }[]>`
    select refund_ref, amount, derived, covered from refund_facts
    where merchant = ${merchant} and payment_ref = ${paymentRef} and (derived or covered or refund_ref = ${fact.refundRef})
    for update`
  const same = known.find((row) => row.refund_ref === fact.refundRef)
  if (same) return same.covered
  const twin = known.find((row) => row.derived && row.amount === fact.amount)
  if (twin) {
    await tx`
      update refund_facts set refund_ref = ${fact.refundRef}, derived = false, created_at = ${fact.createdAt}
      where merchant = ${merchant} and refund_ref = ${twin.refund_ref}`
    await tx`
      update refunds set ref = ${fact.refundRef}, occurred_at = ${fact.createdAt}
      where merchant = ${merchant} and ref = ${twin.refund_ref}`
    return false
  }
  const inferred = sum(known.filter((row) => row.derived).map((row) => row.amount))
  const told = sum(known.filter((row) => row.covered).map((row) => row.amount))
  return told + fact.amount <= inferred
}

/**
 * Infers a refund where a charge's total says that more was refunded than was told, refund by refund. For servers that
 * tell of refunds by the charge alone.
 */
export async function deriveRefund(
  tx: Transaction,
  merchant: string,
  charge: { charge_ref: string; payment_ref: string; currency: string; refunded: bigint },
  at: Date,
): Promise<void> {
  const told = await tx<{ amount: bigint }[]>`
    select amount from refund_facts
    where merchant = ${merchant} and payment_ref = ${charge.payment_ref} and not covered
    for update`
  const missing = charge.refunded - sum(told.map((row) => row.amount))
  if (missing <= 0n) return
  const refundRef = `${charge.charge_ref}:${charge.refunded}`
  await tx`
    insert into refund_facts (merchant, refund_ref, payment_ref, charge_ref, amount, currency, created_at, status,
      succeeded, derived, ripe_at)
    values (${merchant}, ${refundRef}, ${charge.payment_ref}, ${charge.charge_ref}, ${missing}, ${charge.currency},
      ${at}, 'succeeded', true, true, now())
    on conflict do nothing`
}

function sum(amounts: bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

/** The refunds of payments that are to be acted on, in the order in which they were made. */
export async function findRipeRefunds(
  sql: Sql,
  merchant: string,
  paymentRefs: string[],
): Promise<RefundFactRow[]> {
  return sql<RefundFactRow[]>`
    select refund_ref, payment_ref, amount, currency, created_at, status, succeeded, failed_at from refund_facts
    where merchant = ${merchant} and payment_ref = any(${paymentRefs}) and ripe_at <= clock_timestamp()
      and not covered
    order by created_at, refund_ref`
}
