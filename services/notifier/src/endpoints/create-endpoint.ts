import type { MessageInitShape } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import type { CreateEndpointRequest, CreateEndpointResponseSchema } from '@licensing/proto/notifier'
import type { NotifierDeps } from '../dependencies.ts'
import { encrypt } from '@licensing/database/encryption'
import { newSecret } from '../signing/secret.ts'
import { endpointMessage } from './endpoint.ts'
import { insertEndpoint } from './endpoint-queries.ts'
import { readSubscription } from './subscription.ts'

export async function createEndpoint(
  { sql, keys, clock, urlProblem }: NotifierDeps,
  request: CreateEndpointRequest,
): Promise<MessageInitShape<typeof CreateEndpointResponseSchema>> {
  const { accountId, applicationId, url } = request
  const subscription = readSubscription(request.subscribedEvents)
  if ('problem' in subscription) throw invalid('/subscribed_events', subscription.problem)
  const problem = await urlProblem(url)
  if (problem !== null) throw invalid('/url', problem)

  const id = newId('whe')
  const secret = newSecret()
  const createdAt = clock.now()
  const subscribedEvents = subscription.types
  const encryptedSecret = encrypt(secret, id, keys)
  await insertEndpoint(sql, {
    id,
    accountId,
    applicationId,
    url,
    subscribedEvents,
    encryptedSecret,
    createdAt,
  })
  const endpoint = endpointMessage({
    id,
    url,
    subscribedEvents,
    status: 'enabled',
    createdAt,
    disabledAt: null,
    disabledReason: null,
    failingAttempts: null,
    failingSince: null,
  })
  return { endpoint, secret }
}
