import type { Sql, Transaction } from '@licensing/database/connect'
import type { ChargeFact, RefundFact } from '../processors/facts.ts'
import { learnCharge } from './charge-facts.ts'
import type { Subject } from './subjects.ts'

const causedWithinMs = 2_000

export interface RefundFactRow {
  refund_ref: string
  payment_ref: string
  amount: bigint
  currency: string
  created_at: Date
  status: RefundFact['status']
  succeeded: boolean
  succeeded_at: Date | null
  failed_at: Date | null
  /** Whether it is time to act on it. */
  ripe: boolean
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
  const toldAt = fact.toldAt ?? null
  const succeededAt = fact.status === 'succeeded' ? toldAt : null
  const failedAt = fact.status === 'failed' || fact.status === 'canceled' ? toldAt : null
  await tx`
    insert into refund_facts as r (merchant, refund_ref, payment_ref, charge_ref, amount, currency, created_at,
      status, succeeded, succeeded_at, failed_at, covered, ripe_at)
    values (${merchant}, ${refundRef}, ${paymentRef}, ${chargeRef ?? null}, ${fact.amount}, ${fact.currency},
      ${fact.createdAt}, ${fact.status}, ${succeeded}, ${succeededAt}, ${failedAt}, ${covered}, ${ripeAt})
    on conflict (merchant, refund_ref) do update set
      status = case
        when r.status in ('failed', 'canceled') or excluded.status = 'pending' then r.status
        else excluded.status
      end,
      succeeded = r.succeeded or excluded.succeeded,
      succeeded_at = least(r.succeeded_at, excluded.succeeded_at),
      failed_at = least(r.failed_at, excluded.failed_at),
      charge_ref = coalesce(r.charge_ref, excluded.charge_ref)`
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
  charge: ChargeFact,
  paymentRef: string,
): Promise<void> {
  const told = await tx<{ amount: bigint; created_at: Date }[]>`
    select amount, created_at from refund_facts
    where merchant = ${merchant} and payment_ref = ${paymentRef} and not covered
    for update`
  const missing = charge.refunded - sum(told.map((row) => row.amount))
  if (missing <= 0n) return
  // A refund made just before the charge told its total is what changed it: the one that is missing was earlier.
  const changedBy = told.some((row) => charge.toldAt.getTime() - row.created_at.getTime() <= causedWithinMs)
  const at = changedBy ? charge.chargedAt : charge.toldAt
  await tx`
    insert into refund_facts (merchant, refund_ref, payment_ref, charge_ref, amount, currency, created_at, status,
      succeeded, derived, ripe_at)
    values (${merchant}, ${`${charge.chargeRef}:${charge.refunded}`}, ${paymentRef}, ${charge.chargeRef},
      ${missing}, ${charge.currency}, ${at}, 'succeeded', true, true, clock_timestamp())
    on conflict do nothing`
}

/** Whether a charge's total says that more was refunded than has been told. */
export async function isRefundMissing(sql: Sql, merchant: string, paymentRefs: string[]): Promise<boolean> {
  const [row] = await sql<{ missing: boolean }[]>`
    select exists (
      select 1 from charge_facts c
      where c.merchant = ${merchant} and coalesce(c.payment_ref, c.charge_ref) = any(${paymentRefs})
        and c.refunded > (
          select coalesce(sum(f.amount), 0) from refund_facts f
          where f.merchant = c.merchant and f.payment_ref = coalesce(c.payment_ref, c.charge_ref) and not f.covered
        )
    ) as missing`
  return row!.missing
}

function sum(amounts: bigint[]): bigint {
  return amounts.reduce((total, amount) => total + amount, 0n)
}

/** The refunds of payments, in the order in which they came to be. */
export async function findRefundFacts(
  sql: Sql,
  merchant: string,
  paymentRefs: string[],
): Promise<RefundFactRow[]> {
  return sql<RefundFactRow[]>`
    select refund_ref, payment_ref, amount, currency, created_at, status, succeeded, succeeded_at, failed_at,
      ripe_at <= clock_timestamp() as ripe
    from refund_facts
    where merchant = ${merchant} and payment_ref = any(${paymentRefs})
      and not covered
    order by coalesce(succeeded_at, created_at), created_at, refund_ref`
}
