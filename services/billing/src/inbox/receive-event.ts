import { ServiceError } from '@licensing/grpc/errors'
import { accountsOf } from '../connected-accounts/connection-queries.ts'
import type { Handler } from '../dependencies.ts'
import { insertDelivery } from './inbox-queries.ts'

/**
 * Verifies and stores an event. Everything else happens later, from the inbox. An event of a type that is not used is
 * acknowledged too, because the processor would repeat it for days.
 */
export const receiveProcessorEvent: Handler<'receiveProcessorEvent'> = async (
  { sql, processor, wake, log },
  request,
) => {
  if (request.processor !== processor.name) {
    throw new ServiceError('not_found', `there is no processor ${request.processor.slice(0, 64)}`)
  }
  const event = processor.verify(request.body, request.signature)
  const { eventId, type, merchant } = event
  const about = { event: eventId, type, merchant }
  if (!processor.understands(type)) {
    log.debug(about, 'event of a type that is not used')
  } else if (event.live !== processor.live) {
    log.warn(about, 'event of the other mode, test or live, ignored')
  } else if (merchant === undefined || (await accountsOf(sql, merchant)).length === 0) {
    log.warn(about, 'event of a merchant that is not connected, ignored')
  } else if (
    await insertDelivery(sql, { processor: processor.name, eventId, merchant, type, body: request.body })
  ) {
    wake('record')
  }
  return {}
}
