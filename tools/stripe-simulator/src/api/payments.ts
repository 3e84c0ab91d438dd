import { findOwned } from '../flows/find.ts'
import { refundApplicationFee, refundCharge } from '../flows/refund-charge.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { Charge } from '../objects/wire.ts'
import { page, type Call } from './call.ts'
import {
  chargeList,
  disputeList,
  feeList,
  feeRefundCreate,
  feeRefundList,
  intentList,
  intentRetrieve,
  noParameters,
  refundCreate,
  refundList,
} from './parameters.ts'

export function getPaymentIntent({ world, account, id, params }: Call): object {
  params.accept(intentRetrieve)
  return findOwned(world.paymentIntents, 'payment_intent', account, id)
}

export function listPaymentIntents({ world, account, params }: Call): object {
  params.accept(intentList)
  const customer = params.string('customer')
  const found = world.paymentIntents.list(
    account,
    (intent) => customer === undefined || intent.customer === customer,
  )
  return page('/v1/payment_intents', params, found)
}

export function getCharge({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.charges, 'charge', account, id)
}

export function listCharges({ world, account, params }: Call): object {
  params.accept(chargeList)
  const intent = params.string('payment_intent')
  const customer = params.string('customer')
  const found = world.charges.list(
    account,
    (charge) =>
      (intent === undefined || charge.payment_intent === intent) &&
      (customer === undefined || charge.customer === customer),
  )
  return page('/v1/charges', params, found)
}

const url = '/v1/application_fees'

// Fees belong to the platform: with a Stripe-Account header none is found.

export function getApplicationFee({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.applicationFees, 'application_fee', account, id)
}

export function listApplicationFees({ world, account, params }: Call): object {
  params.accept(feeList)
  const charge = params.string('charge')
  const found = world.applicationFees.list(account, (fee) => charge === undefined || fee.charge === charge)
  return page(url, params, found)
}

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

export function getRefund({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.refunds, 'refund', account, id)
}

export function listRefunds({ world, account, params }: Call): object {
  params.accept(refundList)
  const charge = params.string('charge')
  const intent = params.string('payment_intent')
  const found = world.refunds.list(
    account,
    (refund) =>
      (charge === undefined || refund.charge === charge) &&
      (intent === undefined || refund.payment_intent === intent),
  )
  return page('/v1/refunds', params, found)
}

function chargeToRefund({ world, account, params }: Call): Charge {
  const intentId = params.string('payment_intent')
  const intent = intentId && findOwned(world.paymentIntents, 'payment_intent', account, intentId)
  const chargeId = params.string('charge') ?? (intent && intent.latest_charge)
  if (chargeId) return findOwned(world.charges, 'charge', account, chargeId)
  throw invalidRequest(
    'One of the following params should be provided for this request: payment_intent or charge.',
  )
}

export function getDispute({ world, account, id, params }: Call): object {
  params.accept(noParameters)
  return findOwned(world.disputes, 'dispute', account, id)
}

export function listDisputes({ world, account, params }: Call): object {
  params.accept(disputeList)
  const charge = params.string('charge')
  const intent = params.string('payment_intent')
  const found = world.disputes.list(
    account,
    (dispute) =>
      (charge === undefined || dispute.charge === charge) &&
      (intent === undefined || dispute.payment_intent === intent),
  )
  return page('/v1/disputes', params, found)
}
