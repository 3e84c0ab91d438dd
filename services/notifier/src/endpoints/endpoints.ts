import { audit, changesOf, newSecrets } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { encrypt } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import { CreateEndpointResponseSchema, EndpointSchema } from '@licensing/proto/notifier'
import { checkQuota } from '@licensing/quotas/quota'
import type { Handler } from '../dependencies.ts'
import { countEnabledEndpoints, findEndpoints, insertEndpoint, lockRegistration } from './endpoint-queries.ts'
import { newSecret } from './endpoint-secrets.ts'
import { endpointMessage, endpointNotFound, readSubscription } from './endpoint.ts'

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
  const created = { id, url, subscribed_events: subscription.types, created_at: clock.now() }
  const endpoint = endpointMessage({
    ...created,
    status: 'enabled',
    disabled_at: null,
    disabled_reason: null,
    failing_attempts: null,
    failing_since: null,
    pending: 0n,
    last_success_at: null,
    last_failure_at: null,
    health_failing_since: null,
  })
  const response = { endpoint, secret }
  const register = async (tx: Transaction) => {
    await lockRegistration(tx, applicationId)
    await insertEndpoint(tx, {
      ...created,
      account_id: accountId,
      application_id: applicationId,
      encrypted_secret: encrypt(secret, id, keys),
    })
    await checkQuota(tx, accountId, 'webhook_endpoints', await countEnabledEndpoints(tx, applicationId))
    const changes = {
      ...changesOf(EndpointSchema, undefined, endpoint),
      ...newSecrets(CreateEndpointResponseSchema),
    }
    await audit(tx, { accountId, applicationId, resourceId: id, changes })
  }
  const answer = { schema: CreateEndpointResponseSchema, toMessage: () => response }
  await registrations.run(applicationId, () => change(register, { answer }))
  return response
}

export const listEndpoints: Handler<'listEndpoints'> = async (
  { sql },
  { accountId, applicationId, limit, beforeId },
) => {
  const rows = await findEndpoints(sql, {
    accountId,
    applicationId,
    ...(beforeId && { beforeId }),
    limit: rowsFor(limit),
  })
  const { page, hasMore } = pageOf(rows, limit)
  return { endpoints: page.map(endpointMessage), hasMore }
}

export const getEndpoint: Handler<'getEndpoint'> = async (
  { sql },
  { accountId, applicationId, endpointId },
) => {
  const [endpoint] = await findEndpoints(sql, { accountId, applicationId, id: endpointId, limit: 1 })
  if (!endpoint) throw endpointNotFound(endpointId)
  return endpointMessage(endpoint)
}
