import { amountText } from '@licensing/money/amounts'
import { invalidRequest } from '../http/stripe-error.ts'
import { newCheckoutSession, type NewCheckoutSession } from '../objects/checkout-session.ts'
import { newPrice, type NewPrice } from '../objects/price.ts'
import type { CheckoutSession, Metadata, Price } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import { checkoutUrl, type World } from '../world/world.ts'

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
    lines: structuredClone(lines),
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
  const min = minimumAmount(currency)
  if (amount === 0 || amount >= min) return
  throw invalidRequest(
    `The Checkout Session's total amount due must add up to at least ${amountText(min, currency)}`,
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

// Stripe's list, in minor units. For other currencies Stripe converts to the vendor's currency; the simulator does not.
const minimums: Record<string, number> = {
  aed: 200,
  aud: 50,
  bgn: 100,
  brl: 50,
  cad: 50,
  chf: 50,
  czk: 1500,
  dkk: 250,
  eur: 50,
  gbp: 30,
  hkd: 400,
  huf: 17_500,
  inr: 50,
  jpy: 50,
  mxn: 1000,
  myr: 200,
  nok: 300,
  nzd: 50,
  pln: 200,
  ron: 200,
  sek: 300,
  sgd: 50,
  thb: 1000,
  usd: 50,
}

/** The minimum amount of a charge. A free checkout has no charge. */
function minimumAmount(currency: string): number {
  return minimums[currency] ?? 1
}

export function expireSession(world: World, account: Owner, session: CheckoutSession): CheckoutSession {
  if (session.status !== 'open') {
    throw invalidRequest(
      `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of \`${session.status}\`.`,
    )
  }
  session.status = 'expired'
  session.url = null
  world.emitter.emit(account, 'checkout.session.expired', session)
  return session
}

/** The keys that the platform writes into a checkout session's metadata, so that its price needs no setup. */
const agreedPriceKeys = {
  /** Minor units. */
  amount: 'licensing_amount',
  currency: 'licensing_currency',
  /** Months between two charges; absent for a single payment. */
  intervalCount: 'licensing_recurring_interval_count',
} as const

/**
 * The price of a checkout line. An existing price takes precedence, as at Stripe. Otherwise the metadata sets the price,
 * and later metadata may change it.
 */
export function priceOfLine(world: World, account: Owner, id: string, metadata: Metadata): Price | undefined {
  const existing = world.prices.find(account, id)
  if (existing !== undefined && !isAgreed(world, account, id)) return existing
  const agreed = readAgreed(metadata)
  return agreed === undefined ? existing : addAgreedPrice(world, account, { ...agreed, id })
}

/** Adds or updates a price from metadata. A price that was created otherwise is not changed. */
function addAgreedPrice(world: World, account: Owner, wanted: Omit<NewPrice, 'created'>): Price {
  const existing = world.prices.find(account, wanted.id)
  if (existing !== undefined && !isAgreed(world, account, wanted.id)) return existing
  const created = existing?.created ?? world.clock.now()
  world.agreedPrices.add(account, { id: wanted.id, created })
  return world.prices.add(account, newPrice({ product: existing?.product, ...wanted, created }))
}

function isAgreed(world: World, account: Owner, id: string): boolean {
  return world.agreedPrices.find(account, id) !== undefined
}

function readAgreed(metadata: Metadata): Pick<NewPrice, 'unitAmount' | 'currency' | 'recurring'> | undefined {
  const { [agreedPriceKeys.amount]: amount, [agreedPriceKeys.currency]: currency } = metadata
  if (amount === undefined || currency === undefined) return undefined
  const intervalCount = metadata[agreedPriceKeys.intervalCount]
  if (
    !/^\d{1,12}$/.test(amount) ||
    !/^[a-z]{3}$/.test(currency) ||
    !/^([1-9]\d?)?$/.test(intervalCount ?? '')
  ) {
    throw invalidRequest(`Not an agreed price: ${amount} ${currency}, every ${intervalCount ?? 0} months.`, {
      param: 'metadata',
    })
  }
  return {
    unitAmount: Number(amount),
    currency,
    recurring: intervalCount ? { interval: 'month', intervalCount: Number(intervalCount) } : null,
  }
}
