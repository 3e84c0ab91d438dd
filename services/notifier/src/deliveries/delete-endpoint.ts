import { longLockTimeout } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import type { Handler } from '../dependencies.ts'
import { findEndpointRows, lockEndpoint } from '../endpoints/endpoint-queries.ts'
import { endpointDisabled, endpointNotFound } from '../endpoints/endpoint.ts'
import { disableEndpoint } from './disable-endpoint.ts'

/** The endpoint is permanently disabled; its record stays (docs/guides/webhooks.md, "Register a webhook endpoint"). */
export const deleteEndpoint: Handler<'deleteEndpoint'> = async (
  { sql, change, clock, dispatcher },
  request,
) => {
  const { endpointId } = request
  if (!(await lockEndpoint(sql, request))) throw endpointNotFound(endpointId)
  const disable = async (tx: Transaction) => {
    if (!(await disableEndpoint(tx, endpointId, 'deleted', clock.now()))) throw endpointDisabled(endpointId)
    return findEndpointRows(tx, [endpointId])
  }
  const changed = await change(disable, longLockTimeout)
  dispatcher.endpointsChanged(changed)
  return {}
}
