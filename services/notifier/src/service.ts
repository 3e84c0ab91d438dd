import { implement } from '@licensing/grpc/server'
import { NotifierService } from '@licensing/proto/notifier'
import { getDelivery } from './deliveries/get-delivery.ts'
import { listDeliveries } from './deliveries/list-deliveries.ts'
import { replayDelivery } from './deliveries/replay-delivery.ts'
import type { NotifierDeps } from './dependencies.ts'
import { createEndpoint } from './endpoints/create-endpoint.ts'
import { deleteEndpoint } from './endpoints/delete-endpoint.ts'
import { getEndpoint } from './endpoints/get-endpoint.ts'
import { listEndpoints } from './endpoints/list-endpoints.ts'
import { rotateSecret } from './endpoints/rotate-secret.ts'
import { sendTestEvent } from './endpoints/send-test-event.ts'
import { listEvents } from './events/list-events.ts'

export function notifierService(deps: NotifierDeps) {
  return implement(NotifierService, {
    createEndpoint: (request) => createEndpoint(deps, request),
    getEndpoint: (request) => getEndpoint(deps, request),
    listEndpoints: (request) => listEndpoints(deps, request),
    deleteEndpoint: (request) => deleteEndpoint(deps, request),
    rotateSecret: (request) => rotateSecret(deps, request),
    sendTestEvent: (request) => sendTestEvent(deps, request),
    listDeliveries: (request) => listDeliveries(deps, request),
    getDelivery: (request) => getDelivery(deps, request),
    replayDelivery: (request) => replayDelivery(deps, request),
    listEvents: (request) => listEvents(deps, request),
  })
}
