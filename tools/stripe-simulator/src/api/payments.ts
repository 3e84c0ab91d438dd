import { findOwned } from '../flows/find.ts'
import { refundApplicationFee } from '../flows/refund-charge.ts'
import { page, readList, readOne, type Call } from './call.ts'
import {
  chargeList,
  disputeList,
  feeList,
  feeRefundCreate,
  feeRefundList,
  intentRetrieve,
  refundList,
} from './parameters.ts'

export const getPaymentIntent = readOne('paymentIntents', 'payment_intent', intentRetrieve)

export const getCharge = readOne('charges', 'charge')

export const getRefund = readOne('refunds', 'refund')

export const getDispute = readOne('disputes', 'dispute')

export const listCharges = readList('/v1/charges', 'charges', chargeList)

// Fees belong to the platform, so a call with a Stripe-Account header finds none.
const url = '/v1/application_fees'

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

export const listRefunds = readList('/v1/refunds', 'refunds', refundList, {
  charge: (refund) => refund.charge,
})

export const listDisputes = readList('/v1/disputes', 'disputes', disputeList, {
  charge: (dispute) => dispute.charge,
})
