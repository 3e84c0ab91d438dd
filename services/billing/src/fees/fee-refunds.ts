import type { Loop } from '@licensing/process/loop'
import type { BillingDependencies } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { claimFeeRefund, finishFeeRefund, postponeFeeRefund } from './fee-refund-queries.ts'
import type { DueFeeRefund } from './fee-refund-queries.ts'
import { pauseAfter, timing } from '../fulfilment/timing.ts'

const pollMs = 1_000

/** Gives credited fees back at the processor too. The ledger entry's id makes a repetition harmless there. */
export function startFeeRefunds(deps: BillingDependencies): Loop {
  return startRounds('fee refunds', deps.log, pollMs, async () => {
    const refund = await claimFeeRefund(deps.sql)
    if (!refund) return pollMs
    await giveBack(deps, refund)
    return 0
  })
}

async function giveBack({ sql, processor, log }: BillingDependencies, refund: DueFeeRefund): Promise<void> {
  try {
    if (refund.charge_ref === null) throw new Error('its charge is not known yet')
    await processor.refundFee(refund.charge_ref, refund.amount_minor, refund.fee_entry_id)
    await finishFeeRefund(sql, refund.fee_entry_id)
  } catch (error) {
    if (refund.age_ms > timing.feeRefundGivenUp) {
      log.error({ err: error, fee: refund.fee_entry_id }, 'fee not given back: given up')
      return finishFeeRefund(sql, refund.fee_entry_id)
    }
    log.warn({ err: error, fee: refund.fee_entry_id }, 'fee not given back yet')
    await postponeFeeRefund(sql, refund.fee_entry_id, pauseAfter(timing.retryFeeRefund, refund.attempts))
  }
}
