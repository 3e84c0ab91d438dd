import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { invalid } from '@licensing/grpc/errors'
import { CreateEndpointResponseSchema } from '@licensing/proto/notifier'
import { checkQuota } from '@licensing/quotas/quota'
import type { Handler } from '../dependencies.ts'
import { encrypt } from '@licensing/database/encryption'
import { newSecret } from './endpoint-secrets.ts'
import { endpointMessage, readSubscription } from './endpoint.ts'
import { countEnabledEndpoints, insertEndpoint, lockRegistration } from './endpoint-queries.ts'

export const createEndpoint: Handler<'createEndpoint'> = async (
  { change, keys, clock, urlProblem, registrations },
  request,
) => {
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
  const endpoint = endpointMessage({
    id,
    url,
    subscribed_events: subscribedEvents,
    status: 'enabled',
    created_at: createdAt,
    disabled_at: null,
    disabled_reason: null,
    failing_attempts: null,
    failing_since: null,
    pending: 0n,
    last_success_at: null,
    last_failure_at: null,
    unwell_since: null,
  })
  const response = { endpoint, secret }
  const register = async (tx: Transaction) => {
    await lockRegistration(tx, applicationId)
    await insertEndpoint(tx, {
      id,
      accountId,
      applicationId,
      url,
      subscribedEvents,
      encryptedSecret,
      createdAt,
    })
    await checkQuota(tx, accountId, 'webhook_endpoints', await countEnabledEndpoints(tx, applicationId))
  }
  const answer = { schema: CreateEndpointResponseSchema, of: () => response }
  await registrations.inTurn(applicationId, () => change(register, { answer }))
  return response
}
