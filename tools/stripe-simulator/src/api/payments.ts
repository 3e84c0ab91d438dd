import { findOwned } from '../flows/find.ts'
import { refundApplicationFee, refundCharge } from '../flows/refund-charge.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { Charge } from '../objects/wire.ts'
import { page, readList, readOne, type Call } from './call.ts'
import {
  chargeList,
  disputeList,
  feeList,
  feeRefundCreate,
  feeRefundList,
  intentList,
  intentRetrieve,
  refundCreate,
  refundList,
} from './parameters.ts'

export const getPaymentIntent = readOne('paymentIntents', 'payment_intent', intentRetrieve)

export const listPaymentIntents = readList('/v1/payment_intents', 'paymentIntents', intentList, {
  customer: (intent) => intent.customer,
})

export const getCharge = readOne('charges', 'charge')

export const listCharges = readList('/v1/charges', 'charges', chargeList, {
  payment_intent: (charge) => charge.payment_intent,
  customer: (charge) => charge.customer,
})

// Fees belong to the platform, so a call with a Stripe-Account header finds none.
const url = '/v1/application_fees'

export const getApplicationFee = readOne('applicationFees', 'application_fee')

export const listApplicationFees = readList(url, 'applicationFees', feeList, {
  charge: (fee) => fee.charge,
})

export function createFeeRefund({ world, account, id, params }: Call): object {
  params.accept(feeRefundCreate)
  const fee = findOwned(world.applicationFees, 'application_fee', account, id)
  return refundApplicationFee(world, fee, params.integer('amount', 1), params.metadata('metadata'))
}

export function listFeeRefunds({ world, account, id, params }: Call): object {
  params.accept(feeRefundList)
  const fee = findOwned(world.applicationFees, 'application_fee', account, id)
  return page(`${url}/${id}/refunds`, params, fee.refunds.data)
}

const reasons = ['duplicate', 'fraudulent', 'requested_by_customer'] as const

export function createRefund(call: Call): object {
  const { world, account, params } = call
  params.accept(refundCreate)
  const charge = chargeToRefund(call)
  const refunding = {
    amount: params.integer('amount', 1),
    status: 'succeeded' as const,
    reason: params.oneOf('reason', reasons) ?? null,
    metadata: params.metadata('metadata'),
    refundApplicationFee: params.boolean('refund_application_fee') ?? false,
    despiteDispute: false,
  }
  return world.clock.of(charge.customer, () => refundCharge(world, account, charge, refunding))
}

export const getRefund = readOne('refunds', 'refund')

export const listRefunds = readList('/v1/refunds', 'refunds', refundList, {
  charge: (refund) => refund.charge,
  payment_intent: (refund) => refund.payment_intent,
})

function chargeToRefund({ world, account, params }: Call): Charge {
  const intentId = params.string('payment_intent')
  const intent = intentId && findOwned(world.paymentIntents, 'payment_intent', account, intentId)
  const chargeId = params.string('charge') ?? (intent && intent.latest_charge)
  if (chargeId) return findOwned(world.charges, 'charge', account, chargeId)
  throw invalidRequest(
    'One of the following params should be provided for this request: payment_intent or charge.',
  )
}

export const getDispute = readOne('disputes', 'dispute')

export const listDisputes = readList('/v1/disputes', 'disputes', disputeList, {
  charge: (dispute) => dispute.charge,
  payment_intent: (dispute) => dispute.payment_intent,
})
