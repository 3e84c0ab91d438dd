import { findOwned } from '../flows/find.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import { eventAsOfVersion } from '../objects/api-version.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { page, type Call } from './call.ts'
import { eventList, noParameters } from './parameters.ts'

const maxTypes = 20

export function listEvents(call: Call): object {
  const { world, account, params } = call
  params.accept(eventList)
  const types = params.strings('types')
  if (types.length > maxTypes) throw invalidRequest(`At most ${maxTypes} types.`, { param: 'types' })
  const found = world.events.list(account, ({ type }) => types.length === 0 || types.includes(type))
  const list = page('/v1/events', params, found)
  return { ...list, data: list.data.map((event) => asOfAccount(call, event)) }
}

export function getEvent(call: Call): object {
  call.params.accept(noParameters)
  return asOfAccount(call, findOwned(call.world.events, 'event', call.account, call.id))
}

function asOfAccount({ world, account }: Call, event: SimulatedEvent): object {
  const { apiVersion } = world.settings.of(account)
  const invoiceOf = (intent: string) =>
    world.invoicePayments.list(account, ({ payment }) => payment.payment_intent === intent).at(0)?.invoice
  return eventAsOfVersion(apiVersion, event, invoiceOf)
}
