import type { Stripe } from 'stripe'
import type { CheckoutOrder, OpenedCheckout } from '../processor.ts'
import { connectedAccountOf } from './client.ts'
import { checkoutRefusal } from './failures.ts'
import { metadataKeys } from './read.ts'

// Stripe does not document the unit of its limit. A text never has more characters than UTF-16 units.
const maxReferenceLength = 200

/**
 * Opens a Checkout Session as a direct charge on the connected account. The idempotency key is the id of the checkout
 * session here, so that a repetition after a lost answer opens no second one. If Stripe's price differs from the price
 * that the plan is mapped to, the customer pays Stripe's price, and the checkout is opened again with the fee on that.
 */
export async function openCheckout(
  stripe: Stripe,
  order: CheckoutOrder,
  feeFor: (amount: bigint) => bigint,
): Promise<OpenedCheckout> {
  try {
    const opened = await create(stripe, order, order.sessionId)
    const { amount, currency } = opened
    if (amount === order.amount && currency === order.currency) return opened
    const charged = { ...order, amount, currency, feeMinor: feeFor(amount) }
    const again = await create(stripe, charged, `${order.sessionId}:${amount}${currency}`)
    await stripe.checkout.sessions
      .expire(opened.checkoutRef, {}, { stripeAccount: connectedAccountOf(order.merchant), timeout: 5_000 })
      // An error is ignored: nobody has the URL of this checkout, and it expires by itself.
      .catch(() => undefined)
    return again
  } catch (error) {
    throw checkoutRefusal(error)
  }
}

async function create(stripe: Stripe, order: CheckoutOrder, idempotencyKey: string): Promise<OpenedCheckout> {
  const session = await stripe.checkout.sessions.create(parameters(order), {
    stripeAccount: connectedAccountOf(order.merchant),
    idempotencyKey,
    maxNetworkRetries: 2,
    timeout: 5_000,
  })
  // Other servers with Stripe's API may leave these out.
  const total = session.amount_total as number | null | undefined
  return {
    checkoutRef: session.id,
    url: session.url ?? '',
    amount: typeof total === 'number' ? BigInt(total) : order.amount,
    currency: session.currency ?? order.currency,
  }
}

function parameters(order: CheckoutOrder): Stripe.Checkout.SessionCreateParams {
  // Stripe does not copy a session's metadata to its payment or subscription.
  const metadata = {
    [metadataKeys.sessionId]: order.sessionId,
    [metadataKeys.applicationId]: order.applicationId,
    [metadataKeys.planId]: order.planId,
  }
  const agreed = {
    [metadataKeys.amount]: String(order.amount),
    [metadataKeys.currency]: order.currency,
    ...(order.mode === 'subscription' && { [metadataKeys.intervalCount]: String(order.intervalMonths) }),
  }
  return {
    mode: order.mode,
    line_items: [{ price: order.priceId, quantity: 1 }],
    success_url: order.successUrl,
    cancel_url: order.cancelUrl,
    metadata: { ...metadata, ...agreed },
    ...(order.externalRef.length <= maxReferenceLength && { client_reference_id: order.externalRef }),
    ...(order.mode === 'payment'
      ? { payment_intent_data: { metadata, ...feeOnPayment(order) } }
      : { subscription_data: { metadata, ...feeOnSubscription(order) } }),
  }
}

// Stripe takes no fee above the amount. The ledger has the whole fee.
function feeOnPayment({ feeMinor, amount }: CheckoutOrder): { application_fee_amount?: number } {
  const fee = feeMinor < amount ? feeMinor : amount
  return fee > 0n ? { application_fee_amount: Number(fee) } : {}
}

// Stripe takes a percentage of subscriptions. The fixed part of the fee is only in the ledger.
function feeOnSubscription({ feeMinor, feeBps }: CheckoutOrder): { application_fee_percent?: number } {
  return feeMinor > 0n && feeBps > 0 ? { application_fee_percent: feeBps / 100 } : {}
}
