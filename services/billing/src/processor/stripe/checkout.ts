import type { Stripe } from 'stripe'
import type { CheckoutOrder, OpenedCheckout } from '../processor.ts'
import { connectedAccountOf } from './client.ts'
import { checkoutRefusal } from './failures.ts'
import { metadataKeys } from './read.ts'

// Stripe does not say how it counts: UTF-16 units are never fewer than characters.
const longestReference = 200

/**
 * Opens a Checkout Session as a direct charge on the connected account. The idempotency key is our session's id, so
 * that a try whose answer was lost makes no second one. Where Stripe's price is another than the one that the plan is
 * mapped to, Stripe's is what the customer pays: the checkout is opened again with the fee on that.
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
      // Nobody has its address, and it expires by itself.
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
  // Other servers that speak Stripe's protocol may leave these out.
  const total = session.amount_total as number | null | undefined
  return {
    checkoutRef: session.id,
    url: session.url ?? '',
    amount: typeof total === 'number' ? BigInt(total) : order.amount,
    currency: session.currency ?? order.currency,
  }
}

function parameters(order: CheckoutOrder): Stripe.Checkout.SessionCreateParams {
  // A session's metadata does not reach its payment or subscription: each is given its own.
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
