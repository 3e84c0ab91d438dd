import { amountText } from '@licensing/money/amounts'
import { invalidRequest } from '../http/stripe-error.ts'
import { newFeeRefund } from '../objects/application-fee.ts'
import type { ApplicationFee, FeeRefund, Metadata } from '../objects/wire.ts'
import type { World } from '../world/world.ts'

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
