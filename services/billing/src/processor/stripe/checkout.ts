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
 *
 * @param feeFor the fee on another amount
 */
export async function openCheckout(
  stripe: Stripe,
  order: CheckoutOrder,
  urls: CheckoutUrls,
  feeFor: (amount: bigint) => bigint,
): Promise<OpenedCheckout> {
  try {
    const opened = await create(stripe, order, urls, order.id)
    const { amount, currency } = opened
    if (amount === order.amount && currency === order.currency) return opened
    const charged = { ...order, amount, currency, fee_minor: feeFor(amount) }
    const again = await create(stripe, charged, urls, `${order.id}:${amount}${currency}`)
    await stripe.checkout.sessions
      .expire(opened.checkoutRef, {}, { stripeAccount: connectedAccountOf(order.merchant), timeout: 5_000 })
      // An error is ignored: nobody has the URL of this checkout, and it expires by itself.
      .catch(() => undefined)
    return again
  } catch (error) {
    throw checkoutRefusal(error)
  }
}

interface CheckoutUrls {
  successUrl: string
  cancelUrl: string
}

async function create(
  stripe: Stripe,
  order: CheckoutOrder,
  urls: CheckoutUrls,
  idempotencyKey: string,
): Promise<OpenedCheckout> {
  const session = await stripe.checkout.sessions.create(parameters(order, urls), {
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

function parameters(order: CheckoutOrder, urls: CheckoutUrls): Stripe.Checkout.SessionCreateParams {
  // Stripe does not copy a session's metadata to its payment or subscription.
  const metadata = {
    [metadataKeys.sessionId]: order.id,
    [metadataKeys.applicationId]: order.application_id,
    [metadataKeys.planId]: order.plan_id,
  }
  const agreed = {
    [metadataKeys.amount]: String(order.amount),
    [metadataKeys.currency]: order.currency,
    ...(order.mode === 'subscription' && { [metadataKeys.intervalCount]: String(order.period_months ?? 1) }),
  }
  return {
    mode: order.mode,
    line_items: [{ price: order.price_id, quantity: 1 }],
    success_url: urls.successUrl,
    cancel_url: urls.cancelUrl,
    metadata: { ...metadata, ...agreed },
    ...(order.external_ref.length <= maxReferenceLength && { client_reference_id: order.external_ref }),
    ...(order.mode === 'payment'
      ? { payment_intent_data: { metadata, ...feeOnPayment(order) } }
      : { subscription_data: { metadata, ...feeOnSubscription(order) } }),
  }
}

// Stripe takes no fee above the amount. The ledger has the whole fee.
function feeOnPayment({ fee_minor: minor, amount }: CheckoutOrder): { application_fee_amount?: number } {
  const fee = minor < amount ? minor : amount
  return fee > 0n ? { application_fee_amount: Number(fee) } : {}
}

// Stripe takes a percentage of subscriptions. The fixed part of the fee is only in the ledger.
function feeOnSubscription({ fee_minor: minor, fee_bps: bps }: CheckoutOrder): {
  application_fee_percent?: number
} {
  return minor > 0n && bps > 0 ? { application_fee_percent: bps / 100 } : {}
}
