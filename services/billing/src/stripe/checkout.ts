import type { Stripe } from 'stripe'
import type { CheckoutOrder } from '../processors/processor.ts'
import { connectedAccountOf } from './client.ts'
import { checkoutRefusal } from './failures.ts'
import { metadataKeys } from './read.ts'
import { teachPrice } from './simulated-prices.ts'

// Stripe does not say how it counts: UTF-16 units are never fewer than characters.
const longestReference = 200

/**
 * Opens a Checkout Session as a direct charge on the connected account. The idempotency key is our session's id, so
 * that a try whose answer was lost makes no second one.
 *
 * @param standIn base address of a local stand-in
 */
export async function openCheckout(
  stripe: Stripe,
  order: CheckoutOrder,
  standIn: string | undefined,
): Promise<{ checkoutRef: string; url: string }> {
  if (standIn !== undefined) await teachPrice(standIn, order)
  try {
    const session = await stripe.checkout.sessions.create(parameters(order), {
      stripeAccount: connectedAccountOf(order.merchant),
      idempotencyKey: order.sessionId,
      maxNetworkRetries: 2,
      timeout: 5_000,
    })
    return { checkoutRef: session.id, url: session.url ?? '' }
  } catch (error) {
    throw checkoutRefusal(error)
  }
}

function parameters(order: CheckoutOrder): Stripe.Checkout.SessionCreateParams {
  // A session's metadata does not reach its payment or subscription: each is given its own.
  const metadata = {
    [metadataKeys.sessionId]: order.sessionId,
    [metadataKeys.applicationId]: order.applicationId,
    [metadataKeys.planId]: order.planId,
  }
  return {
    mode: order.mode,
    line_items: [{ price: order.priceId, quantity: 1 }],
    success_url: order.successUrl,
    cancel_url: order.cancelUrl,
    metadata,
    ...(order.externalRef.length <= longestReference && { client_reference_id: order.externalRef }),
    ...(order.mode === 'payment'
      ? { payment_intent_data: { metadata, ...feeOnPayment(order) } }
      : { subscription_data: { metadata, ...feeOnSubscription(order) } }),
  }
}

// Stripe takes no fee above the amount; the ledger has the whole of it.
function feeOnPayment({ feeMinor, amount }: CheckoutOrder): { application_fee_amount?: number } {
  const fee = feeMinor < amount ? feeMinor : amount
  return fee > 0n ? { application_fee_amount: Number(fee) } : {}
}

// A subscription's fee is a percentage there: a fixed part stands in the ledger alone.
function feeOnSubscription({ feeMinor, feeBps }: CheckoutOrder): { application_fee_percent?: number } {
  return feeMinor > 0n && feeBps > 0 ? { application_fee_percent: feeBps / 100 } : {}
}
