import { ServiceError } from '@licensing/grpc/errors'
import type { BillingDependencies } from '../dependencies.ts'
import { carryOut } from './carry-out.ts'
import { lockFulfilments, retryRefused, takeFulfilment } from './effect-queries.ts'
import { timing } from './timing.ts'

/**
 * Provisions a purchase whose provisioning was refused, at once, and with it all that has happened since.
 *
 * @returns false where nothing of it was refused
 * @throws ServiceError why it is refused again, or `unavailable`: then it is tried in the background
 */
export async function replay(deps: BillingDependencies, purchaseRef: string): Promise<boolean> {
  const isRetried = await deps.outbox.transaction(async (tx) => {
    await lockFulfilments(tx, [purchaseRef])
    return retryRefused(tx, purchaseRef, timing.claim)
  })
  if (!isRetried) return false
  await provisionNow(deps, purchaseRef, { quietly: true })
  return true
}

/** Carries out what waits of a purchase for a caller who waits for it. */
export async function provisionNow(
  deps: BillingDependencies,
  purchaseRef: string,
  options: { quietly: boolean },
): Promise<void> {
  const claimed = [{ purchase_ref: purchaseRef, attempts: 0 }]
  const carried = await carryOut(deps, claimed, options)
  for (const { effect, outcome } of carried) {
    if (effect.kind !== 'landed' || 'applied' in outcome) continue
    if ('refused' in outcome) throw outcome.refused
    throw outcome.failed instanceof ServiceError
      ? outcome.failed
      : new ServiceError('unavailable', 'the licensing service is temporarily unavailable')
  }
}

/** What somebody else is carrying out is done by the caller too: licensing does it once. */
export async function takeOver(deps: BillingDependencies, purchaseRef: string): Promise<void> {
  await takeFulfilment(deps.sql, purchaseRef, timing.claim)
  await provisionNow(deps, purchaseRef, { quietly: false })
}
