import { newId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'

const askTimeoutMs = 2_000
const pushTimeoutMs = 5_000

/**
 * Before a change that licensing has to follow: is it there, with its database? Then the change is not begun where it
 * could not take effect; what fails after this is repaired by the event.
 *
 * @throws ServiceError `unavailable`, with nothing changed
 */
export async function requireLicensing({ licensing }: CatalogDependencies): Promise<void> {
  const unavailable = (cause: unknown) =>
    new ServiceError('unavailable', 'the licensing service is temporarily unavailable; nothing was changed', {
      cause,
    })
  try {
    await licensing.calls.countActiveLicences({ planIds: [newId('pln')] }, { timeoutMs: askTimeoutMs })
  } catch (error) {
    throw unavailable(error)
  }
}

/**
 * Hands copies to licensing, so that what is issued after the answer follows the change.
 *
 * @throws ServiceError `unavailable` that says that the change is saved: its event brings it to licensing
 */
export async function push(
  { licensing }: CatalogDependencies,
  copies: PlanCopy[],
  timeoutMs = pushTimeoutMs,
): Promise<void> {
  await licensing.calls.syncPlans({ plans: copies }, { timeoutMs }).catch((error: unknown) => {
    throw savedOnly('the change is saved, and takes effect as soon as the licensing service is back', error)
  })
}

export function savedOnly(detail: string, cause: unknown): ServiceError {
  return new ServiceError('unavailable', detail, { cause })
}
