import { impossible } from '../http/stripe-error.ts'
import { firstPeriod } from '../objects/billing-period.ts'
import { customerDetails } from '../objects/checkout-session.ts'
import { newLine } from '../objects/invoice-line.ts'
import { taxOn } from '../objects/invoice.ts'
import { newSubscription } from '../objects/subscription.ts'
import type { CheckoutSession, PaymentIntent } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import { newId } from '../world/ids.ts'
import type { World } from '../world/world.ts'
import { draftInvoice, finalizeInvoice, settleInvoice, submitInvoice } from './collect-invoice.ts'
import {
  openIntent,
  settlePayment,
  submitPayment,
  type Payer,
  type PaymentOutcome,
} from './collect-payment.ts'
import { findAnywhere, findOwned } from './find.ts'
import { markPastDue } from './subscription-status.ts'

type Paying = Payer & { discount: number }

/**
 * Pays an open session. If the session waits for a delayed payment, the payment succeeds.
 */
export function paySession(world: World, sessionId: string, paying: Paying): CheckoutSession {
  const { account, object: session } = findAnywhere(world.sessions, 'checkout session', sessionId)
  if (awaitsPayment(session)) return settleSession(world, account, session, 'succeeded')
  refuseUnlessOpen(session)
  addUp(session, session.mode === 'payment' ? paying.discount : 0, world.settings.of(account).taxPercent)
  if (session.mode === 'subscription') startSubscription(world, account, session, paying)
  else payOnce(world, account, session, paying)
  session.status = 'complete'
  session.url = null
  session.customer_details = customerDetails(paying.email)
  world.emitter.emit(account, 'checkout.session.completed', session)
  return session
}

/** Declines the card, and the session stays open for another attempt. A delayed payment fails permanently. */
export function failSession(world: World, sessionId: string, payer: Payer): CheckoutSession {
  const { account, object: session } = findAnywhere(world.sessions, 'checkout session', sessionId)
  if (awaitsPayment(session)) return settleSession(world, account, session, 'failed')
  refuseUnlessOpen(session)
  if (session.mode === 'payment' && (session.amount_total ?? 0) > 0) {
    const intent = intentOfSession(world, account, session)
    submitPayment(world, account, intent, { ...payer, method: 'card' })
    settlePayment(world, account, intent, 'failed')
  }
  return session
}

export function awaitsPayment(session: CheckoutSession): boolean {
  return session.status === 'complete' && session.payment_status === 'unpaid'
}

function payOnce(world: World, account: Owner, session: CheckoutSession, paying: Paying): void {
  if (session.amount_total === 0) {
    session.payment_status = 'no_payment_required'
    return
  }
  const intent = intentOfSession(world, account, session)
  submitPayment(world, account, intent, paying)
  if (paying.method === 'delayed') return
  settlePayment(world, account, intent, 'succeeded')
  session.payment_status = 'paid'
}

function intentOfSession(world: World, account: Owner, session: CheckoutSession): PaymentIntent {
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, session.id)
  const amount = session.amount_total ?? 0
  const existing = world.paymentIntents.find(account, session.payment_intent ?? '')
  if (existing !== undefined) {
    existing.amount = amount
    return existing
  }
  const intent = openIntent(world, account, {
    amount,
    currency: session.currency ?? '',
    applicationFeeAmount: plan.applicationFeeAmount && Math.min(plan.applicationFeeAmount, amount),
    customer: null,
    description: plan.description,
    metadata: plan.metadata,
  })
  session.payment_intent = intent.id
  return intent
}

function addUp(session: CheckoutSession, discount: number, taxPercent: number): void {
  const subtotal = session.amount_subtotal ?? 0
  const taxable = Math.max(0, subtotal - discount)
  const tax = taxOn(taxable, taxPercent)
  session.amount_total = taxable + tax
  session.total_details = { amount_discount: subtotal - taxable, amount_shipping: 0, amount_tax: tax }
}

function refuseUnlessOpen(session: CheckoutSession): void {
  if (session.status !== 'open') {
    throw impossible(`${session.id} is ${session.status} and ${session.payment_status}, not open`)
  }
}

/** Lets a delayed payment succeed or fail, days after the checkout. */
function settleSession(
  world: World,
  account: Owner,
  session: CheckoutSession,
  result: PaymentOutcome,
): CheckoutSession {
  if (session.mode === 'subscription') {
    const invoice = findOwned(world.invoices, 'invoice', account, session.invoice ?? '')
    settleInvoice(world, account, invoice, result)
    if (result === 'failed') markPastDue(world, account, session.subscription ?? '')
  } else {
    const intent = findOwned(world.paymentIntents, 'payment_intent', account, session.payment_intent ?? '')
    settlePayment(world, account, intent, result)
  }
  if (result === 'succeeded') session.payment_status = 'paid'
  world.emitter.emit(account, `checkout.session.async_payment_${result}`, session)
  return session
}

/**
 * Starts the subscription of a session. The first invoice is paid before the session completes, so `invoice.paid` is sent
 * first, as is common with Stripe. A delayed first payment leaves the subscription active and the invoice open.
 */
function startSubscription(world: World, account: Owner, session: CheckoutSession, payer: Payer): void {
  const plan = findOwned(world.checkoutPlans, 'checkout session', account, session.id)
  const created = world.clock.now()
  const items = plan.lines.map(({ price, quantity }) => {
    return { price, quantity, period: firstPeriod(created, price) }
  })
  const subscription = world.subscriptions.add(
    account,
    newSubscription({
      created,
      currency: session.currency ?? '',
      customer: newId('cus'),
      description: plan.description,
      paymentMethod: newId('pm'),
      metadata: { ...plan.metadata },
      applicationFeePercent: plan.applicationFeePercent,
      items,
    }),
  )
  const lines = subscription.items.data.map((item) => {
    const period = { start: item.current_period_start, end: item.current_period_end }
    return newLine({ subscription, item, price: item.price, period })
  })
  const invoice = draftInvoice(world, account, {
    reason: 'subscription_create',
    subscription,
    email: payer.email,
    lines,
    closes: { start: created, end: created },
    finalizesAt: null,
  })
  finalizeInvoice(world, account, invoice)
  session.customer = subscription.customer
  session.subscription = subscription.id
  session.invoice = invoice.id
  world.emitter.emit(account, 'customer.subscription.created', subscription)

  const settlesNow = payer.method === 'card' || invoice.amount_due === 0
  submitInvoice(world, account, invoice, payer)
  if (!settlesNow) return
  settleInvoice(world, account, invoice, 'succeeded')
  session.payment_status = invoice.amount_due === 0 ? 'no_payment_required' : 'paid'
}
