import { findOwned } from '../flows/find.ts'
import type { Call } from './call.ts'
import { page, pageParams } from './page.ts'

export function getDispute({ world, account, id, params }: Call): object {
  params.only()
  return findOwned(world.disputes, 'dispute', account, id)
}

export function listDisputes({ world, account, params }: Call): object {
  params.only(...pageParams, 'charge', 'payment_intent')
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
