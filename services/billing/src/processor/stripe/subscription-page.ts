import { ServiceError } from '@licensing/grpc/errors'
import type { Stripe } from 'stripe'
import { connectedAccountOf } from './client.ts'
import { answerTo, refusalText } from './failures.ts'

/** Opens Stripe's billing portal for the customer of a subscription, on the connected account. */
export async function openSubscriptionPage(
  stripe: Stripe,
  merchant: string,
  subscriptionRef: string,
  returnUrl: string,
): Promise<string> {
  const options = { stripeAccount: connectedAccountOf(merchant), maxNetworkRetries: 1, timeout: 5_000 }
  try {
    const { customer } = await stripe.subscriptions.retrieve(subscriptionRef, {}, options)
    const of = typeof customer === 'string' ? customer : customer.id
    const { url } = await stripe.billingPortal.sessions.create(
      { customer: of, return_url: returnUrl },
      options,
    )
    return url
  } catch (error) {
    throw answerTo(
      error,
      (refused) =>
        new ServiceError('conflict', refusalText('to open its page for this subscription', refused), {
          cause: error,
        }),
    )
  }
}
