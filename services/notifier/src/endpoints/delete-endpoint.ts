import { transaction } from '@licensing/database/transaction'
import type { Handler } from '../dependencies.ts'
import { disableEndpoint } from './disable-endpoint.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'
import { lockEndpoint, findEndpointRows } from './endpoint-queries.ts'

/** Interface 3.3: the endpoint is permanently disabled; its record stays. */
export const deleteEndpoint: Handler<'deleteEndpoint'> = async ({ sql, clock, dispatcher }, request) => {
  const { endpointId } = request
  if (!(await lockEndpoint(sql, request))) throw endpointNotFound(endpointId)
  const changed = await transaction(sql, async (tx) => {
    if (!(await disableEndpoint(tx, endpointId, 'deleted', clock.now()))) throw endpointDisabled(endpointId)
    return findEndpointRows(tx, [endpointId])
  })
  dispatcher.endpointsChanged(changed)
  return {}
}
