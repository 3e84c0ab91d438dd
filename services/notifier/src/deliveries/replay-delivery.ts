import type { Sql } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import { ReplayDeliveryResponseSchema } from '@licensing/proto/notifier'
import type { ReplayDeliveryRequest } from '@licensing/proto/notifier'
import type { NotifierDependencies, Handler } from '../dependencies.ts'
import { checkSendable } from '../endpoints/endpoint.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { lockEndpoint } from '../endpoints/endpoint-queries.ts'
import { deliveryNotFound } from './delivery.ts'
import { insertDeliveries, findReplayed, requestReplay } from './delivery-queries.ts'
import type { ReplayedDelivery } from './delivery-queries.ts'

/** Sends a delivery again, now: as one more attempt of the same delivery, or as a new delivery to another endpoint. */
export const replayDelivery: Handler<'replayDelivery'> = async (deps, request) => {
  const answer = { schema: ReplayDeliveryResponseSchema, toMessage: ({ id }: { id: string }) => ({ id }) }
  const { id, lease } = await deps.change((tx) => replay(deps, tx, request), { answer })
  lease.send()
  return { id }
}

async function replay(deps: NotifierDependencies, tx: Sql, request: ReplayDeliveryRequest) {
  const { accountId, applicationId, deliveryId } = request
  const path = { accountId, applicationId, id: deliveryId }
  const delivery = await findReplayed(tx, { ...path, keptSince: deps.keptSince() })
  if (!delivery) throw deliveryNotFound(deliveryId)
  const endpoint = await lockTarget(tx, request, delivery.endpoint_id)
  const { body } = delivery
  if (body === null) {
    throw new ServiceError('payload_expired', `the payload of delivery ${deliveryId} is past retention`)
  }
  return request.endpointId === undefined
    ? sendAgain(deps, tx, { ...delivery, body }, endpoint)
    : sendToAnother(deps, tx, { ...delivery, body }, endpoint)
}

async function lockTarget(tx: Sql, request: ReplayDeliveryRequest, own: string): Promise<EndpointRow> {
  const { accountId, applicationId, endpointId = own } = request
  const endpoint = await lockEndpoint(tx, { accountId, applicationId, endpointId })
  if (!endpoint) throw invalid('/endpoint_id', `there is no webhook endpoint ${endpointId}`)
  checkSendable(endpoint, 'register a new endpoint and replay to it by its endpoint_id')
  return endpoint
}

type Replayable = ReplayedDelivery & { body: string }

async function sendAgain(
  { dispatcher, clock }: NotifierDependencies,
  tx: Sql,
  delivery: Replayable,
  endpoint: EndpointRow,
) {
  const { id } = delivery
  const replay = { ...delivery, is_replay: true }
  const lease = dispatcher.lease([replay], [endpoint])
  const { isClaimed, attemptCount } = await requestReplay(tx, delivery, clock.now(), lease.claim)
  replay.attempt_count = attemptCount
  // If another process has claimed the delivery, that process makes the replay after its attempt.
  return { id, lease: isClaimed ? lease : { send: () => dispatcher.wake() } }
}

/** Creates a delivery like any other of that endpoint, with its own retries. */
async function sendToAnother(
  { dispatcher, clock }: NotifierDependencies,
  tx: Sql,
  delivery: Replayable,
  endpoint: EndpointRow,
) {
  const fresh = {
    ...delivery,
    id: newId('dlv'),
    endpoint_id: endpoint.id,
    created_at: clock.now(),
    attempt_count: 0,
    scheduled_attempts: 0,
    is_replay: false,
  }
  const lease = dispatcher.lease([fresh], [endpoint])
  await insertDeliveries(tx, [fresh], lease.claim)
  return { id: fresh.id, lease }
}
