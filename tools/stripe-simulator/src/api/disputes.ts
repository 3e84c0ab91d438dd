import { findOwned } from '../flows/find.ts'
import type { Call } from './call.ts'
import { disputeList, noParameters } from './parameters.ts'
import { page } from './page.ts'

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
