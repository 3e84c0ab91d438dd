import { amountText } from '@licensing/money/amounts'
import { impossible, invalidRequest } from '../http/stripe-error.ts'
import { newFeeRefund } from '../objects/charge.ts'
import { countsAgainstCharge, newRefund, type RefundStatus } from '../objects/refund.ts'
import type { ApplicationFee, Charge, FeeRefund, Metadata, Refund } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { findAnywhere, findOwned } from './find.ts'

type Refunding = {
  /** By default the rest of the charge. */
  amount: number | undefined
  status: RefundStatus
  reason: Refund['reason']
  /** Allows a refund after a chargeback, which Stripe forbids, for tests in which the events of both cross. */
  despiteDispute: boolean
}

export function refundCharge(world: World, account: Owner, charge: Charge, refunding: Refunding): Refund {
  checkRefundable(world, account, charge, refunding)
  const left = charge.amount_captured - charge.amount_refunded
  const amount = refunding.amount ?? left
  if (amount > left) {
    const [asked, rest] = [amountText(amount, charge.currency), amountText(left, charge.currency)]
    throw invalidRequest(`Refund amount (${asked}) is greater than unrefunded amount on charge (${rest})`, {
      param: 'amount',
    })
  }
  const { status, reason } = refunding
  const created = world.clock.now()
  const refund = world.refunds.add(account, newRefund({ created, charge, amount, status, reason }))
  world.emitter.emit(account, 'refund.created', refund)
  if (countsAgainstCharge(refund)) {
    recountRefunds(world, account, charge)
  } else if (status === 'failed') {
    refund.failure_reason = 'unknown'
    world.emitter.emit(account, 'refund.failed', refund)
  }
  return refund
}

/** Computes the refunded amount of a charge. Pending refunds count, failed refunds do not. */
function recountRefunds(world: World, account: Owner, charge: Charge): void {
  const before = charge.amount_refunded
  const wasRefunded = charge.refunded
  charge.amount_refunded = world.refunds
    .list(account, (refund) => refund.charge === charge.id && countsAgainstCharge(refund))
    .reduce((sum, refund) => sum + refund.amount, 0)
  charge.refunded = charge.amount_refunded >= charge.amount_captured
  if (charge.amount_refunded <= before) return
  world.emitter.emit(account, 'charge.refunded', charge, {
    amount_refunded: before,
    ...(wasRefunded !== charge.refunded && { refunded: wasRefunded }),
  })
}

function checkRefundable(world: World, account: Owner, charge: Charge, { despiteDispute }: Refunding): void {
  if (charge.status !== 'succeeded') {
    throw invalidRequest(`Charge ${charge.id} has not been paid and cannot be refunded.`, {
      code: 'charge_not_refundable',
    })
  }
  if (charge.refunded) {
    throw invalidRequest(`Charge ${charge.id} has already been refunded.`, {
      code: 'charge_already_refunded',
    })
  }
  const disputes = world.disputes.list(account, (dispute) => dispute.charge === charge.id)
  if (!despiteDispute && disputes.some((dispute) => !dispute.is_charge_refundable)) {
    throw invalidRequest(`Charge ${charge.id} has been charged back; cannot issue a refund.`, {
      code: 'charge_disputed',
    })
  }
}

/** Changes the status of a refund: the bank decides on a pending refund, or returns a refund days after it succeeded. */
export function changeRefund(world: World, refundId: string, status: RefundStatus): Refund {
  const { account, object: refund } = findAnywhere(world.refunds, 'refund', refundId)
  if (refund.status === status) throw impossible(`${refundId} is ${status} already`)
  if (refund.status === 'failed' || refund.status === 'canceled') {
    throw impossible(`${refundId} is ${refund.status}, which is its end`)
  }
  const previous = { status: refund.status }
  refund.status = status
  if (status !== 'pending') delete refund.pending_reason
  if (status === 'failed') {
    refund.failure_reason = 'unknown'
    refund.failure_balance_transaction = newId('txn')
  }
  world.emitter.emit(account, 'refund.updated', refund, previous)
  world.emitter.emit(account, 'charge.refund.updated', refund, previous)
  if (status === 'failed') world.emitter.emit(account, 'refund.failed', refund, previous)
  recountRefunds(world, account, findOwned(world.charges, 'charge', account, refund.charge ?? ''))
  return refund
}

export function refundApplicationFee(
  world: World,
  fee: ApplicationFee,
  wanted: number | undefined,
  metadata: Metadata,
): FeeRefund {
  if (fee.refunded) throw invalidRequest('This application fee has already been refunded.')
  const left = fee.amount - fee.amount_refunded
  const amount = wanted ?? left
  if (amount > left) {
    const [asked, rest] = [amountText(amount, fee.currency), amountText(left, fee.currency)]
    throw invalidRequest(`Refund amount (${asked}) is greater than unrefunded amount on fee (${rest})`, {
      param: 'amount',
    })
  }
  const previous = { amount_refunded: fee.amount_refunded, refunded: fee.refunded }
  const refund = newFeeRefund(world.clock.now(), fee, amount, metadata)
  fee.refunds.data.unshift(refund)
  fee.amount_refunded += amount
  fee.refunded = fee.amount_refunded === fee.amount
  world.emitter.emit(null, 'application_fee.refunded', fee, previous)
  return refund
}
