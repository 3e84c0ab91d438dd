import { implement } from '@licensing/grpc/server'
import { createRepeatable } from '@licensing/changes/repeatable'
import {
  CreateEndpointResponseSchema,
  NotifierService,
  RecoverEndpointResponseSchema,
  ReplayDeliveryResponseSchema,
  RotateSecretResponseSchema,
  SendTestEventResponseSchema,
} from '@licensing/proto/notifier'
import { listAlerts } from './alerts/list-alerts.ts'
import { sendConfirmation } from './alerts/send-confirmation.ts'
import { deleteEndpoint } from './deliveries/delete-endpoint.ts'
import { getDelivery, listAttempts, listDeliveries } from './deliveries/read-deliveries.ts'
import { recoverEndpoint } from './deliveries/recover-endpoint.ts'
import { replayDelivery } from './deliveries/replay-delivery.ts'
import type { NotifierDependencies } from './dependencies.ts'
import { createEndpoint, getEndpoint, listEndpoints, updateEndpoint } from './endpoints/endpoints.ts'
import { rotateSecret } from './endpoints/endpoint-secrets.ts'
import { getLatestSequence, listEvents } from './events/read-events.ts'
import { sendTestEvent } from './events/send-test-event.ts'
import { getDeliveryMetrics } from './statistics/get-delivery-metrics.ts'

/** Every RPC of the service. */
export function notifierService(deps: NotifierDependencies) {
  const repeatable = createRepeatable(deps)
  return implement(NotifierService, {
    createEndpoint: repeatable(CreateEndpointResponseSchema, (request) => createEndpoint(deps, request)),
    getEndpoint: (request) => getEndpoint(deps, request),
    listEndpoints: (request) => listEndpoints(deps, request),
    updateEndpoint: (request) => updateEndpoint(deps, request),
    deleteEndpoint: (request) => deleteEndpoint(deps, request),
    rotateSecret: repeatable(RotateSecretResponseSchema, (request) => rotateSecret(deps, request)),
    sendTestEvent: repeatable(SendTestEventResponseSchema, (request) => sendTestEvent(deps, request)),
    recoverEndpoint: repeatable(RecoverEndpointResponseSchema, (request) => recoverEndpoint(deps, request)),
    listDeliveries: (request) => listDeliveries(deps, request),
    getDelivery: (request) => getDelivery(deps, request),
    listAttempts: (request) => listAttempts(deps, request),
    replayDelivery: repeatable(ReplayDeliveryResponseSchema, (request) => replayDelivery(deps, request)),
    listEvents: (request) => listEvents(deps, request),
    listAlerts: (request) => listAlerts(deps, request),
    sendConfirmation: (request) => sendConfirmation(deps, request),
    getDeliveryMetrics: (request) => getDeliveryMetrics(deps, request),
    getLatestSequence: (request) => getLatestSequence(deps, request),
  })
}
