import { amountText } from '@licensing/money/amounts'
import { invalidRequest } from '../http/stripe-error.ts'
import { newCheckoutSession } from '../objects/checkout-session.ts'
import type { NewCheckoutSession } from '../objects/checkout-session.ts'
import { minimumAmount } from '../objects/minimum-amount.ts'
import type { CheckoutSession, Metadata, Price } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import { checkoutUrl } from '../world/world.ts'
import type { World } from '../world/world.ts'

const minute = 60
const day = 24 * 60 * minute

export type CheckoutOrder = Pick<
  NewCheckoutSession,
  'mode' | 'successUrl' | 'cancelUrl' | 'clientReferenceId' | 'customerEmail' | 'metadata'
> & {
  lines: { price: Price; quantity: number }[]
  expiresAt: number | undefined
  paymentMetadata: Metadata
  description: string | null
  applicationFeeAmount: number | null
  applicationFeePercent: number | null
}

export function openCheckout(world: World, account: Owner, order: CheckoutOrder): CheckoutSession {
  const { mode, lines } = order
  const created = world.clock.now()
  const expiresAt = order.expiresAt ?? created + day
  if (expiresAt < created + 30 * minute || expiresAt > created + day) {
    throw invalidRequest('`expires_at` must be between 30 minutes and 24 hours after Checkout creation.', {
      param: 'expires_at',
    })
  }
  const currency = checkPrices(order)
  const amount = lines.reduce((sum, { price, quantity }) => sum + (price.unit_amount ?? 0) * quantity, 0)
  checkMinimum(amount, currency)
  checkFee(account, order, amount)

  const id = newId('cs_test')
  world.checkoutPlans.add(account, {
    id,
    created,
    lines: lines.map((line) => ({ lineId: newId('li'), ...structuredClone(line) })),
    metadata: order.paymentMetadata,
    description: order.description,
    applicationFeeAmount: order.applicationFeeAmount,
    applicationFeePercent: order.applicationFeePercent,
  })
  return world.sessions.add(
    account,
    newCheckoutSession({
      id,
      created,
      mode,
      amount,
      currency,
      url: checkoutUrl(world, id),
      successUrl: order.successUrl,
      cancelUrl: order.cancelUrl,
      expiresAt,
      clientReferenceId: order.clientReferenceId,
      customerEmail: order.customerEmail,
      metadata: order.metadata,
    }),
  )
}

function checkPrices({ mode, lines }: CheckoutOrder): string {
  const currencies = new Set(lines.map(({ price }) => price.currency))
  const [currency] = currencies
  if (currency === undefined || currencies.size > 1) {
    throw invalidRequest('All prices of a Checkout Session must have the same currency.', {
      param: 'line_items',
    })
  }
  const recurring = lines.filter(({ price }) => price.recurring !== null).length
  if (mode === 'payment' && recurring > 0) {
    throw invalidRequest('You specified `payment` mode but passed a recurring price.', {
      param: 'line_items',
    })
  }
  if (mode === 'subscription' && recurring !== lines.length) {
    throw invalidRequest('This simulator takes only recurring prices in `subscription` mode.', {
      param: 'line_items',
    })
  }
  const inactive = lines.find(({ price }) => !price.active)
  if (inactive !== undefined) {
    throw invalidRequest('The price specified is inactive. This field only accepts active prices.', {
      param: 'line_items[0][price]',
    })
  }
  return currency
}

function checkMinimum(amount: number, currency: string): void {
  const least = minimumAmount(currency)
  if (amount === 0 || amount >= least) return
  throw invalidRequest(
    `The Checkout Session's total amount due must add up to at least ${amountText(least, currency)}`,
    { code: 'amount_too_small' },
  )
}

function checkFee(account: Owner, order: CheckoutOrder, amount: number): void {
  const fee = order.applicationFeeAmount
  if (account === null && (fee !== null || order.applicationFeePercent !== null)) {
    throw invalidRequest('An application fee needs a direct charge: send the Stripe-Account header.')
  }
  if (fee !== null && fee > amount) {
    throw invalidRequest('The application fee cannot be greater than the total amount of the charge.', {
      param: 'payment_intent_data[application_fee_amount]',
    })
  }
}
