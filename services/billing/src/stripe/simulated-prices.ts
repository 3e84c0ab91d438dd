import type { CheckoutOrder } from '../processors/processor.ts'
import { connectedAccountOf } from './client.ts'

const timeoutMs = 5_000

/**
 * Makes a price known to the local stand-in, where prices are not made by hand. Any other server that stands in for
 * Stripe has no such call, and its own prices.
 */
export async function teachPrice(apiBase: string, order: CheckoutOrder): Promise<void> {
  const price = {
    id: order.priceId,
    account: connectedAccountOf(order.merchant),
    unit_amount: Number(order.amount),
    currency: order.currency,
    ...(order.mode === 'subscription' && { recurring: { interval: 'month' } }),
  }
  const answer = await fetch(new URL('/_sim/prices', apiBase), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(price),
    signal: AbortSignal.timeout(timeoutMs),
  }).catch(() => undefined)
  await answer?.body?.cancel()
}
