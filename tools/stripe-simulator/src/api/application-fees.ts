import { findOwned } from '../flows/find.ts'
import { refundApplicationFee } from '../flows/refund-application-fee.ts'
import type { Call } from './call.ts'
import { feeList, feeRefundCreate, feeRefundList, noParameters } from './parameters.ts'
import { page } from './page.ts'

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
