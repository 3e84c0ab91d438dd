import { create } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { encrypt } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import { invalid } from '@licensing/grpc/errors'
import { CreateEndpointResponseSchema, EndpointFieldsSchema } from '@licensing/proto/notifier'
import type { Endpoint as EndpointMessage } from '@licensing/proto/notifier'
import { checkQuota } from '@licensing/quotas/quota'
import type { Handler, NotifierDependencies } from '../dependencies.ts'
import { auditEndpoint, changeEndpoint } from './change-endpoint.ts'
import { endpointFields } from './endpoint-fields.ts'
import { countEnabledEndpoints, findEndpoints, insertEndpoint, lockRegistration } from './endpoint-queries.ts'
import type { EndpointPath } from './endpoint-queries.ts'
import { encryptHeaders, hasHeaders, newSecret } from './endpoint-secrets.ts'
import { endpointMessage, endpointNotFound, newEndpoint } from './endpoint.ts'

export const createEndpoint: Handler<'createEndpoint'> = async (
  { change, keys, clock, urlProblem, registrations },
  request,
) => {
  const { accountId, applicationId, fields } = request
  const { headers, ...columns } = endpointFields.ofNew({
    ...create(EndpointFieldsSchema, fields),
    paused: fields?.paused ?? false,
    signature: fields?.signature ?? 'default',
  })
  await checkUrl(urlProblem, columns.url)

  const id = newId('whe')
  const secret = newSecret(columns.signature)
  const row = {
    id,
    account_id: accountId,
    application_id: applicationId,
    ...columns,
    created_at: clock.now(),
  }
  const response = { endpoint: endpointMessage({ ...newEndpoint, ...row }), secret }
  const encryptedSecret = encrypt(secret, id, keys)
  const register = async (tx: Transaction) => {
    await lockRegistration(tx, applicationId)
    await insertEndpoint(tx, {
      ...row,
      encrypted_headers: encryptHeaders(headers, id, keys),
      encrypted_secret: encryptedSecret,
    })
    await checkQuota(tx, accountId, 'webhook_endpoints', await countEnabledEndpoints(tx, applicationId))
    await auditEndpoint(tx, undefined, { ...row, encrypted_secret: encryptedSecret, encrypted_headers: null })
  }
  const answer = { schema: CreateEndpointResponseSchema, toMessage: () => response }
  await registrations.run(applicationId, () => change(register, { answer }))
  return response
}

/** Changes an endpoint's own fields (docs/guides/webhooks.md, "Change an endpoint"). */
export const updateEndpoint: Handler<'updateEndpoint'> = async (deps, request) => {
  const { keys, urlProblem } = deps
  const { endpointId: id, fields, mask } = request
  if (mask?.paths.includes('url')) await checkUrl(urlProblem, fields?.url ?? '')
  let secret: string | undefined
  await changeEndpoint(deps, request, (before) => {
    const { headers: given, ...columns } = endpointFields.ofChange({ ...before, headers: null }, request)
    const headers = given && hasHeaders(before, given, keys) ? undefined : given
    const after = { ...before, ...columns, headers: headers ?? null }
    const differences = endpointFields.differences({ ...before, headers: null }, after)
    secret = undefined
    if (Object.keys(differences).length === 0 && !headers) return {}
    const encryptedHeaders =
      headers === undefined ? {} : { encrypted_headers: encryptHeaders(headers, id, keys) }
    if (after.signature === before.signature) return { ...columns, ...encryptedHeaders }
    secret = newSecret(after.signature)
    return {
      ...columns,
      ...encryptedHeaders,
      encrypted_secret: encrypt(secret, id, keys),
      former_secret: null,
      former_secret_until: null,
    }
  })
  const endpoint = await readEndpoint(deps, request)
  return { endpoint, ...(secret !== undefined && { secret }) }
}

async function checkUrl(urlProblem: NotifierDependencies['urlProblem'], url: string): Promise<void> {
  const problem = await urlProblem(url)
  if (problem !== null) throw invalid('/url', problem)
}

export const listEndpoints: Handler<'listEndpoints'> = async (
  { sql, clock, remainingMs },
  { accountId, applicationId, limit, beforeId },
) => {
  const of = { accountId, applicationId, ...(beforeId && { beforeId }), limit: rowsFor(limit) }
  const rows = await findEndpoints(sql, of, { now: clock.now(), remainingMs })
  const { page, hasMore } = pageOf(rows, limit)
  return { endpoints: page.map(endpointMessage), hasMore }
}

export const getEndpoint: Handler<'getEndpoint'> = (deps, request) => readEndpoint(deps, request)

async function readEndpoint(
  { sql, clock, remainingMs }: NotifierDependencies,
  { accountId, applicationId, endpointId }: EndpointPath,
): Promise<EndpointMessage> {
  const of = { accountId, applicationId, id: endpointId, limit: 1 }
  const [endpoint] = await findEndpoints(sql, of, { now: clock.now(), remainingMs })
  if (!endpoint) throw endpointNotFound(endpointId)
  return endpointMessage(endpoint)
}
