import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { audit } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { traceHeaders } from '@licensing/process/telemetry'
import { EventSchema } from '@licensing/proto/events'
import { SendTestEventResponseSchema } from '@licensing/proto/notifier'
import type { Handler } from '../dependencies.ts'
import { recordEvents } from './record-events.ts'
import { checkSendable, endpointNotFound } from '../endpoints/endpoint.ts'
import { lockEndpoint } from '../endpoints/endpoint-queries.ts'

/** Records a test event that is sent to this endpoint only, whatever types it is subscribed to. */
export const sendTestEvent: Handler<'sendTestEvent'> = async (deps, request) => {
  const { accountId, applicationId, endpointId } = request
  const event = create(EventSchema, {
    id: newId('evt'),
    accountId,
    applicationId,
    occurredAt: timestampFromDate(deps.clock.now()),
    payload: { case: 'webhookTest', value: { ping: true } },
  })
  const record = async (tx: Transaction) => {
    const endpoint = await lockEndpoint(tx, request)
    if (!endpoint) throw endpointNotFound(endpointId)
    checkSendable(endpoint)
    await audit(tx, { accountId, applicationId, resourceId: endpointId, changes: {} })
    const traceParent = traceHeaders().traceparent
    return recordEvents(deps, tx, [{ event, traceParent }], [endpoint])
  }
  const response = { eventId: event.id }
  const send = await deps.change(record, {
    answer: { schema: SendTestEventResponseSchema, toMessage: () => response },
  })
  send()
  return response
}
