import { pageOf, rowsFor } from '@licensing/database/page'
import type { Handler } from '../dependencies.ts'
import { findEndpoints } from './endpoint-queries.ts'
import { endpointMessage, endpointNotFound } from './endpoint.ts'

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
