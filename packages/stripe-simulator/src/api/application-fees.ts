import { findOwned } from '../flows/find.ts'
import { refundApplicationFee } from '../flows/refund-application-fee.ts'
import type { Call } from './call.ts'
import { page, pageParams } from './page.ts'

const url = '/v1/application_fees'

// Fees belong to the platform: with a Stripe-Account header none is found.

export function getApplicationFee({ world, account, id, params }: Call): object {
  params.only()
  return findOwned(world.applicationFees, 'application_fee', account, id)
}

export function listApplicationFees({ world, account, params }: Call): object {
  params.only(...pageParams, 'charge')
  const charge = params.string('charge')
  const found = world.applicationFees.list(account, (fee) => charge === undefined || fee.charge === charge)
  return page(url, params, found)
}

export function createFeeRefund({ world, account, id, params }: Call): object {
  params.only('amount', 'metadata')
  const fee = findOwned(world.applicationFees, 'application_fee', account, id)
  return refundApplicationFee(world, fee, params.integer('amount', 1), params.metadata('metadata'))
}

export function listFeeRefunds({ world, account, id, params }: Call): object {
  params.only(...pageParams)
  const fee = findOwned(world.applicationFees, 'application_fee', account, id)
  return page(`${url}/${id}/refunds`, params, fee.refunds.data)
}
