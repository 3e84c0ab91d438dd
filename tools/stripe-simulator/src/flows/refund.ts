import { amountText } from '@licensing/money/amounts'
import { impossible, invalidRequest } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newId } from '../ids.ts'
import { newFeeRefund } from '../objects/charge.ts'
import { countsAgainstCharge, newRefund, type RefundStatus } from '../objects/refund.ts'
import type { ApplicationFee, Charge, FeeRefund, Metadata, Refund } from '../objects/wire.ts'
import { add, list, need, ownerOf, type World } from '../world.ts'

type Refunding = {
  /** By default the rest of the charge. */
  amount?: number | undefined
  status: RefundStatus
  /** Allows a refund after a chargeback, which Stripe forbids, for tests in which the events of both cross. */
  force: boolean
}

/** Refunds as the vendor would in the dashboard. The platform keeps its fee. */
export function refundCharge(world: World, charge: Charge, { amount, force, status }: Refunding): Refund {
  if (charge.refunded) {
    throw invalidRequest(`Charge ${charge.id} has already been refunded.`, {
      code: 'charge_already_refunded',
    })
  }
  const account = ownerOf(world, charge)
  const isBlocking = (charged: string, refundable: boolean) => charged === charge.id && !refundable
  const chargebacks = list(world, account, world.disputes, (each) =>
    isBlocking(each.charge, each.is_charge_refundable),
  )
  if (!force && chargebacks.length > 0) {
    throw invalidRequest(`Charge ${charge.id} has been charged back; cannot issue a refund.`, {
      code: 'charge_disputed',
    })
  }
  const left = charge.amount_captured - charge.amount_refunded
  const wanted = atMost(left, amount, charge.currency, 'charge')
  const refund = newRefund({ created: world.now, charge, amount: wanted, status })
  add(world, world.refunds, account, refund)
  emit(world, 'refund.created', refund)
  if (countsAgainstCharge(refund)) {
    recountRefunds(world, charge)
  } else if (refund.status === 'failed') {
    refund.failure_reason = 'unknown'
    emit(world, 'refund.failed', refund)
  }
  return refund
}

/** The wanted amount, or all that is left. */
function atMost(left: number, wanted: number | undefined, currency: string, of: 'charge' | 'fee'): number {
  if (wanted === undefined || wanted <= left) return wanted ?? left
  const [asked, rest] = [amountText(wanted, currency), amountText(left, currency)]
  throw invalidRequest(`Refund amount (${asked}) is greater than unrefunded amount on ${of} (${rest})`, {
    param: 'amount',
  })
}

/** Computes the refunded amount of a charge. Pending refunds count, failed refunds do not. */
function recountRefunds(world: World, charge: Charge): void {
  const before = charge.amount_refunded
  const wasRefunded = charge.refunded
  charge.amount_refunded = [...world.refunds.values()]
    .filter((refund) => refund.charge === charge.id && countsAgainstCharge(refund))
    .reduce((sum, refund) => sum + refund.amount, 0)
  charge.refunded = charge.amount_refunded >= charge.amount_captured
  if (charge.amount_refunded <= before) return
  emit(world, 'charge.refunded', charge, {
    amount_refunded: before,
    ...(wasRefunded !== charge.refunded && { refunded: wasRefunded }),
  })
}

/** Changes the status of a refund: the bank decides on a pending refund, or returns a refund days after it succeeded. */
export function changeRefund(world: World, refund: Refund, status: RefundStatus): Refund {
  if (refund.status === status) throw impossible(`${refund.id} is ${status} already`)
  if (!countsAgainstCharge(refund)) throw impossible(`${refund.id} is ${refund.status}, which is its end`)
  const previous = { status: refund.status }
  refund.status = status
  if (status !== 'pending') delete refund.pending_reason
  if (status === 'failed') {
    refund.failure_reason = 'unknown'
    refund.failure_balance_transaction = newId('txn')
  }
  emit(world, 'refund.updated', refund, previous)
  emit(world, 'charge.refund.updated', refund, previous)
  if (status === 'failed') emit(world, 'refund.failed', refund, previous)
  recountRefunds(world, need(world.charges, 'charge', refund.charge))
  return refund
}

export function refundFee(
  world: World,
  fee: ApplicationFee,
  wanted: number | undefined,
  metadata: Metadata,
): FeeRefund {
  if (fee.refunded) throw invalidRequest('This application fee has already been refunded.')
  const amount = atMost(fee.amount - fee.amount_refunded, wanted, fee.currency, 'fee')
  const previous = { amount_refunded: fee.amount_refunded, refunded: fee.refunded }
  const refund = newFeeRefund(world.now, fee, amount, metadata)
  fee.refunds.data.unshift(refund)
  fee.amount_refunded += amount
  fee.refunded = fee.amount_refunded === fee.amount
  emit(world, 'application_fee.refunded', fee, previous)
  return refund
}
