import { invalidRequest } from '../http/stripe-error.ts'
import { page, type Call } from './call.ts'
import { eventList } from './parameters.ts'

const maxTypes = 20

export function listEvents({ world, account, params }: Call): object {
  params.accept(eventList)
  const types = params.strings('types')
  if (types.length > maxTypes) throw invalidRequest(`At most ${maxTypes} types.`, { param: 'types' })
  const found = world.events.list(account, ({ type }) => types.length === 0 || types.includes(type))
  return page('/v1/events', params, found)
}
