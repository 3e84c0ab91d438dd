import { findOwned } from '../flows/find.ts'
import type { Call } from './call.ts'
import { chargeList, intentList, intentRetrieve, noParameters } from './parameters.ts'
import { page } from './page.ts'

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
