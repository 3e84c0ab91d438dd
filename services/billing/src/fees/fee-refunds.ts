import { longLockTimeout } from '@licensing/changes/change'
import { newId } from '@licensing/database/ids'
import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies } from '../dependencies.ts'
import { lockPurchases } from '../effects/effect-queries.ts'
import { pauseAfter } from '@licensing/process/retry'
import { timing } from '../timing.ts'
import type { ChargedFee } from '../processor/processor.ts'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import {
  claimFeeRefund,
  closeFeeRefund,
  finishFeeRefund,
  isOwed,
  postponeFeeRefund,
} from './fee-refund-queries.ts'
import type { DueFeeRefund } from './fee-refund-queries.ts'
import { feeRefundCause } from './fee.ts'
import { findChargeOfFee } from './ledger-queries.ts'
import { postEntries } from './post-entries.ts'

const pollMs = 1_000

/**
 * Refunds credited fees at the processor. The refund that earned the credit may fail meanwhile, which reverses the
 * credit: then the fee is not refunded, and an attempt that took effect anyway is recorded.
 */
export function startFeeRefunds(deps: BillingDependencies): Loop {
  const refundNext = async () => {
    const refund = await claimFeeRefund(deps.sql)
    if (!refund) return 'idle'
    await attempt(deps, refund)
    return 0
  }
  return startDatabaseLoop('fee refunds', deps.log, pollMs, refundNext)
}

async function attempt(deps: BillingDependencies, refund: DueFeeRefund): Promise<void> {
  const { sql, processor, log } = deps
  const { fee_entry_id: entry, charge_refs: chargeRefs } = refund
  try {
    if (chargeRefs.length === 0) {
      if (refund.cancelled_ms !== null) return await closeFeeRefund(sql, entry)
      throw new Error('its charge is not known yet')
    }
    const found = await Promise.all(chargeRefs.map((chargeRef) => processor.findFee(chargeRef)))
    const fees = found.filter((fee) => fee !== undefined)
    if (refund.cancelled_ms !== null) return await watchCancelled(deps, refund, refund.cancelled_ms, fees)
    await refundOwedFee(deps, refund, fees)
  } catch (error) {
    if (refund.age_ms > timing.feeRefundGivenUp) {
      log.error({ err: error, fee: entry }, 'fee not refunded: given up')
      return closeFeeRefund(sql, entry)
    }
    log.warn({ err: error, fee: entry }, 'fee not refunded yet')
    await postponeFeeRefund(sql, entry, pauseAfter(timing.retryFeeRefund, refund.attempts))
  }
}

/**
 * Refunds an owed fee, from the fees of the payment's charges. If the answer of an earlier attempt was lost, it may be
 * refunded already: then no part of the fee is left, or the processor lists the refund.
 */
async function refundOwedFee(
  { sql, processor }: BillingDependencies,
  { fee_entry_id: entry, amount_minor: amount, charge_refs: chargeRefs }: DueFeeRefund,
  fees: ChargedFee[],
): Promise<void> {
  const given = fees.map(({ refunds }) =>
    refundsOf(refunds, entry).reduce((sum, each) => sum + each.amountMinor, 0n),
  )
  let owed = amount - given.reduce((sum, each) => sum + each, 0n)
  for (const [at, { feeRef, leftMinor: left }] of fees.entries()) {
    if (owed <= 0n || left <= 0n || given[at]! > 0n) continue
    if (!(await isOwed(sql, entry))) return postponeFeeRefund(sql, entry, 0)
    const part = owed < left ? owed : left
    await processor.refundFee(feeRef, part, entry)
    owed -= part
  }
  // With asynchronous capture, the processor adds the fee up to an hour after the charge.
  if (owed > 0n && fees.length < chargeRefs.length) {
    throw new Error(`a charge of ${chargeRefs.join()} has no application fee yet`)
  }
  if (!(await finishFeeRefund(sql, entry))) await postponeFeeRefund(sql, entry, 0)
}

const refundsOf = (refunds: ChargedFee['refunds'], entry: string) =>
  refunds.filter(({ entryId }) => entryId === entry)

/** Watches a cancelled fee refund: a request that was running when it was cancelled may still take effect. */
async function watchCancelled(
  deps: BillingDependencies,
  refund: DueFeeRefund,
  cancelledMs: number,
  fees: ChargedFee[],
): Promise<void> {
  const { sql } = deps
  const { fee_entry_id: entry, attempts } = refund
  const [refunded] = fees.flatMap(({ refunds }) => refundsOf(refunds, entry))
  if (refunded) await recordRefunded(deps, refund, refunded.at)
  else if (cancelledMs > timing.cancelledFeeRefundWatched) await closeFeeRefund(sql, entry)
  else await postponeFeeRefund(sql, entry, pauseAfter(timing.retryFeeRefund, attempts))
}

/**
 * Posts another credit, because the fee was refunded although the refund that earned the credit failed. If another refund has
 * earned a credit since, this one replaces it. The purchase is locked, because its decisions depend on the ledger.
 */
async function recordRefunded(deps: BillingDependencies, refund: DueFeeRefund, at: Date): Promise<void> {
  const { fee_entry_id: entry, payment_id: paymentId, amount_minor: amount } = refund
  await deps.change(async (tx) => {
    await lockPurchases(tx, [refund.purchase_ref])
    const charge = await findChargeOfFee(tx, paymentId)
    await closeFeeRefund(tx, entry)
    if (!charge || charge.balance_minor <= 0n) return
    const { balance_minor: _, ...owner } = charge
    const credit = { kind: 'credit' as const, cause: feeRefundCause(entry), amount_minor: -amount }
    await postEntries(tx, [{ id: newId('fee'), payment_id: paymentId, ...owner, ...credit, occurred_at: at }])
  }, longLockTimeout)
  deps.log.warn({ fee: entry }, 'fee refunded though its credit was reversed: credited again')
}
