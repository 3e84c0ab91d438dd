import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { Handler } from '../dependencies.ts'
import { findSubscription } from './session-queries.ts'

/** The subscription that a checkout began, until it has ended. */
export const getSubscription: Handler<'getSubscription'> = async ({ sql }, { accountId, purchaseRef }) => {
  const found = await findSubscription(sql, accountId, purchaseRef)
  if (!found) return {}
  return { subscription: { paidUntil: timestampFromDate(found.paid_until), renews: found.renews } }
}

/** The processor's page on which the customer changes the card or cancels. What is done there arrives as events. */
export const createSubscriptionSession: Handler<'createSubscriptionSession'> = async (
  { sql, processor },
  { accountId, purchaseRef, returnUrl },
) => {
  const found = await findSubscription(sql, accountId, purchaseRef)
  if (!found) {
    throw new ServiceError(
      'conflict',
      'this licence has no subscription that could be changed here: ask the vendor',
    )
  }
  return { url: await processor.openSubscriptionPage(found.merchant, found.subscription_ref, returnUrl) }
}
