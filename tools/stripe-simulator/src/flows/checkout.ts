import { amountText } from '@licensing/money/amounts'
import { impossible, invalidRequest } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newId } from '../ids.ts'
import { customerDetails, newCheckoutSession, type NewCheckoutSession } from '../objects/checkout-session.ts'
import { taxOn } from '../objects/invoice.ts'
import { newPrice, type NewPrice } from '../objects/price.ts'
import type { CheckoutSession, Metadata, PaymentIntent, Price } from '../objects/wire.ts'
import { add, need, ownerOf, priceKey, settingsOf, type Order, type Owner, type World } from '../world.ts'
import { settleInvoice } from './invoice.ts'
import { openIntent, settlePayment, submitPayment, type Payer, type PaymentOutcome } from './payment.ts'
import { markPastDue, startSubscription } from './subscription.ts'

export function openCheckout(
  world: World,
  account: Owner,
  page: Pick<NewCheckoutSession, 'mode' | 'successUrl' | 'cancelUrl' | 'clientReferenceId' | 'metadata'>,
  order: Order,
): CheckoutSession {
  const created = world.now
  const currency = checkPrices(page.mode, order)
  const amount = order.lines.reduce(
    (sum, { price, quantity }) => sum + (price.unit_amount ?? 0) * quantity,
    0,
  )
  const [min] = minimums.find(([, currencies]) => currencies.includes(currency)) ?? [1]
  if (amount > 0 && amount < min) {
    throw invalidRequest(
      `The Checkout Session's total amount due must add up to at least ${amountText(min, currency)}`,
      { code: 'amount_too_small' },
    )
  }
  checkFee(order, amount)
  const id = newId('cs_test')
  world.orders.set(id, structuredClone(order))
  const url = `${world.publicUrl}/pay/${id}`
  const session = newCheckoutSession({ ...page, id, created, amount, currency, url })
  return add(world, world.sessions, account, session)
}

function checkPrices(mode: NewCheckoutSession['mode'], { lines }: Order): string {
  const refuse = (message: string, param = 'line_items') => invalidRequest(message, { param })
  const [currency, ...others] = new Set(lines.map(({ price }) => price.currency))
  if (currency === undefined || others.length > 0) {
    throw refuse('All prices of a Checkout Session must have the same currency.')
  }
  const recurring = lines.filter(({ price }) => price.recurring !== null).length
  if (mode === 'payment' && recurring > 0) {
    throw refuse('You specified `payment` mode but passed a recurring price.')
  }
  if (mode === 'subscription' && recurring !== lines.length) {
    throw refuse('This simulator takes only recurring prices in `subscription` mode.')
  }
  if (lines.some(({ price }) => !price.active)) {
    const message = 'The price specified is inactive. This field only accepts active prices.'
    throw refuse(message, 'line_items[0][price]')
  }
  return currency
}

function checkFee({ applicationFeeAmount: fee }: Order, amount: number): void {
  if (fee !== null && fee > amount) {
    throw invalidRequest('The application fee cannot be greater than the total amount of the charge.', {
      param: 'payment_intent_data[application_fee_amount]',
    })
  }
}

/**
 * Stripe's minimum of a charge, in minor units. For other currencies Stripe converts to the vendor's currency; the simulator
 * does not. A free checkout has no charge.
 */
const minimums: [least: number, currencies: string][] = [
  [30, 'gbp'],
  [50, 'aud brl cad chf eur inr jpy nzd sgd usd'],
  [100, 'bgn'],
  [200, 'aed myr pln ron'],
  [250, 'dkk'],
  [300, 'nok sek'],
  [400, 'hkd'],
  [1000, 'mxn thb'],
  [1500, 'czk'],
  [17_500, 'huf'],
]

/**
 * The price of a checkout line. A price that the vendor has set takes precedence. Otherwise the session's metadata sets the
 * price that the platform and the vendor agreed on, and later metadata may change it.
 */
export function priceOfLine(world: World, account: Owner, id: string, metadata: Metadata): Price | undefined {
  const existing = world.prices.get(priceKey(account, id))
  if (existing?.agreed === false) return existing.price
  const agreed = readAgreed(metadata)
  if (agreed === undefined) return existing?.price
  return putPrice(world, account, { ...agreed, id }, true)
}

/** Adds a price with an id that the caller chooses, or updates it. */
export function putPrice(
  world: World,
  account: Owner,
  wanted: Omit<NewPrice, 'created' | 'product'>,
  agreed: boolean,
): Price {
  const { created = world.now, product } = world.prices.get(priceKey(account, wanted.id))?.price ?? {}
  const price = newPrice({ ...wanted, created, product })
  world.prices.set(priceKey(account, wanted.id), { price, agreed })
  return price
}

function readAgreed(metadata: Metadata): Pick<NewPrice, 'unitAmount' | 'currency' | 'recurring'> | undefined {
  const { licensing_amount: amount, licensing_currency: currency } = metadata
  if (amount === undefined || currency === undefined) return undefined
  const months = metadata['licensing_recurring_interval_count'] ?? ''
  if (!/^\d{1,12}$/.test(amount) || !/^[a-z]{3}$/.test(currency) || !/^([1-9]\d?)?$/.test(months)) {
    throw invalidRequest(`Not an agreed price: ${amount} ${currency}, every ${months || 0} months.`, {
      param: 'metadata',
    })
  }
  const recurring = months ? { interval: 'month' as const, intervalCount: Number(months) } : null
  return { unitAmount: Number(amount), currency, recurring }
}

type Paying = Payer & { discount: number }

/** Pays an open session. If the session waits for a delayed payment, the payment succeeds. */
export function paySession(world: World, session: CheckoutSession, paying: Paying): CheckoutSession {
  if (awaitsPayment(session)) return settleSession(world, session, 'succeeded')
  refuseUnlessOpen(session)
  addUp(world, session, session.mode === 'payment' ? paying.discount : 0)
  if (session.mode === 'subscription') subscribe(world, session, paying)
  else payOnce(world, session, paying)
  session.status = 'complete'
  session.url = null
  session.customer_details = customerDetails(paying.email)
  emit(world, 'checkout.session.completed', session)
  return session
}

/** Declines the card, and the session stays open for another attempt. A delayed payment fails permanently. */
export function failSession(world: World, session: CheckoutSession, email: string): CheckoutSession {
  if (awaitsPayment(session)) return settleSession(world, session, 'failed')
  refuseUnlessOpen(session)
  if (session.mode === 'payment' && (session.amount_total ?? 0) > 0) {
    const intent = intentOf(world, session)
    submitPayment(world, intent, { method: 'card', email })
    settlePayment(world, intent, 'failed')
  }
  return session
}

export function expireSession(world: World, session: CheckoutSession): CheckoutSession {
  if (session.status !== 'open') {
    throw invalidRequest(
      `Only Checkout Sessions with a status in ["open"] can be expired. This Checkout Session has a status of \`${session.status}\`.`,
    )
  }
  session.status = 'expired'
  session.url = null
  emit(world, 'checkout.session.expired', session)
  return session
}

function awaitsPayment(session: CheckoutSession): boolean {
  return session.status === 'complete' && session.payment_status === 'unpaid'
}

function refuseUnlessOpen(session: CheckoutSession): void {
  if (session.status !== 'open') {
    throw impossible(`${session.id} is ${session.status} and ${session.payment_status}, not open`)
  }
}

function addUp(world: World, session: CheckoutSession, discount: number): void {
  const subtotal = session.amount_subtotal ?? 0
  const taxable = Math.max(0, subtotal - discount)
  const tax = taxOn(taxable, settingsOf(world, ownerOf(world, session)).taxPercent)
  session.amount_total = taxable + tax
  session.total_details = { amount_discount: subtotal - taxable, amount_shipping: 0, amount_tax: tax }
}

function payOnce(world: World, session: CheckoutSession, paying: Paying): void {
  if (session.amount_total === 0) {
    session.payment_status = 'no_payment_required'
    return
  }
  const intent = intentOf(world, session)
  submitPayment(world, intent, paying)
  if (paying.method === 'delayed') return
  settlePayment(world, intent, 'succeeded')
  session.payment_status = 'paid'
}

/** The payment intent of a session, which the first attempt to pay creates. */
function intentOf(world: World, session: CheckoutSession): PaymentIntent {
  const amount = session.amount_total ?? 0
  const existing = world.paymentIntents.get(session.payment_intent ?? '')
  if (existing !== undefined) {
    existing.amount = amount
    return existing
  }
  const order = need(world.orders, 'checkout.session', session.id)
  const intent = openIntent(world, ownerOf(world, session), {
    amount,
    currency: session.currency ?? '',
    applicationFeeAmount: order.applicationFeeAmount && Math.min(order.applicationFeeAmount, amount),
    customer: null,
    metadata: order.metadata,
  })
  session.payment_intent = intent.id
  return intent
}

function subscribe(world: World, session: CheckoutSession, payer: Payer): void {
  const order = need(world.orders, 'checkout.session', session.id)
  const { subscription, invoice } = startSubscription(world, ownerOf(world, session), order, payer)
  session.customer = subscription.customer
  session.subscription = subscription.id
  session.invoice = invoice.id
  if (invoice.status === 'paid') {
    session.payment_status = invoice.amount_due === 0 ? 'no_payment_required' : 'paid'
  }
}

/** Lets a delayed payment succeed or fail, days after the checkout. */
function settleSession(world: World, session: CheckoutSession, result: PaymentOutcome): CheckoutSession {
  if (session.mode === 'subscription') {
    settleInvoice(world, need(world.invoices, 'invoice', session.invoice), result)
    const subscription = need(world.subscriptions, 'subscription', session.subscription)
    if (result === 'failed') markPastDue(world, subscription)
  } else {
    settlePayment(world, need(world.paymentIntents, 'payment_intent', session.payment_intent), result)
  }
  if (result === 'succeeded') session.payment_status = 'paid'
  emit(world, `checkout.session.async_payment_${result}`, session)
  return session
}
