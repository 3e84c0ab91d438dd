import type { BillingDeps } from '../deps.ts'
import { startLoop } from '../loop.ts'
import type { Loop } from '../loop.ts'
import { claimFeeRefunds, finishFeeRefund, postponeFeeRefund } from './fee-refund-queries.ts'
import type { DueFeeRefund } from './fee-refund-queries.ts'

const pollMs = 1_000
const together = 10

/** Gives credited fees back at the processor too. The ledger entry's id makes a repetition harmless there. */
export function startFeeRefunds(deps: BillingDeps): Loop {
  return startLoop('fee refunds', deps.log, async () => {
    const due = await claimFeeRefunds(deps.sql, together)
    for (const refund of due) await giveBack(deps, refund)
    return due.length === together ? 0 : pollMs
  })
}

async function giveBack({ sql, processor, log }: BillingDeps, refund: DueFeeRefund): Promise<void> {
  try {
    if (refund.charge_ref === null) throw new Error('its charge is not known yet')
    await processor.refundFee(refund.charge_ref, refund.amount_minor, refund.fee_entry_id)
    await finishFeeRefund(sql, refund.fee_entry_id)
  } catch (error) {
    log.warn({ err: error, fee: refund.fee_entry_id }, 'fee not given back yet')
    await postponeFeeRefund(sql, refund.fee_entry_id, Math.min(1_000 * 2 ** refund.attempts, 3_600_000))
  }
}
