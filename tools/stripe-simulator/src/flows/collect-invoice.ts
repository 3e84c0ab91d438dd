import { impossible } from '../http/stripe-error.ts'
import { newInvoice, newInvoicePayment, type NewInvoice } from '../objects/invoice.ts'
import type { FinalAction } from '../objects/subscription.ts'
import type { Invoice, InvoicePayment, PaymentIntent, Subscription } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import {
  openIntent,
  settlePayment,
  submitPayment,
  type Payer,
  type PaymentOutcome,
} from './collect-payment.ts'
import { findOwned } from './find.ts'
import { endSubscription, markPastDue, stateOf, updateSubscription } from './subscription-status.ts'

export type Attempt = { count: number; next: number | null }

export function draftInvoice(
  world: World,
  account: Owner,
  wanted: Omit<NewInvoice, 'created' | 'startingBalance' | 'taxPercent'>,
): Invoice {
  const { subscription } = wanted
  const startingBalance = stateOf(world, account, subscription.id).balance
  const { taxPercent } = world.settings.of(account)
  const invoice = newInvoice({ ...wanted, created: world.clock.now(), startingBalance, taxPercent })
  world.invoices.add(account, invoice)
  subscription.latest_invoice = invoice.id
  world.emitter.emit(account, 'invoice.created', invoice)
  return invoice
}

/** Finalizes a draft, so that it can be collected. The customer's credit is used first. */
export function finalizeInvoice(world: World, account: Owner, invoice: Invoice): Invoice {
  const now = world.clock.now()
  const subscription = findOwned(world.subscriptions, 'subscription', account, subscriptionOf(invoice))
  const state = stateOf(world, account, subscription.id)
  state.balance = Math.min(0, invoice.total + invoice.starting_balance)
  invoice.ending_balance = state.balance
  invoice.number = `SIM-${String(world.invoices.size).padStart(4, '0')}`
  invoice.status = 'open'
  invoice.effective_at = now
  invoice.automatically_finalizes_at = null
  invoice.status_transitions.finalized_at = now
  invoice.webhooks_delivered_at = now
  if (invoice.amount_due > 0) openPayment(world, account, invoice, invoice.amount_due)
  world.emitter.emit(account, 'invoice.finalized', invoice)
  return invoice
}

function openPayment(world: World, account: Owner, invoice: Invoice, amount: number): InvoicePayment {
  const subscription = findOwned(world.subscriptions, 'subscription', account, subscriptionOf(invoice))
  const intent = openIntent(world, account, {
    amount,
    currency: invoice.currency,
    applicationFeeAmount: feeOf(amount, subscription.application_fee_percent),
    customer: subscription.customer,
    description: subscription.description,
    // Metadata of a subscription does not reach its payments.
    metadata: {},
  })
  return world.invoicePayments.add(account, newInvoicePayment(world.clock.now(), invoice, intent))
}

/** Adds a payment of a part of an open invoice, so that the default payment is for the rest. */
function splitPayment(world: World, account: Owner, invoice: Invoice, firstPart: number): void {
  const [{ payment, intent }] = collectionsOf(world, account, invoice)
  const rest = invoice.amount_due - firstPart
  if (firstPart <= 0 || rest <= 0) throw impossible(`${invoice.id} has ${invoice.amount_due} to pay`)
  const { application_fee_percent: percent } = findOwned(
    world.subscriptions,
    'subscription',
    account,
    subscriptionOf(invoice),
  )
  intent.amount = rest
  intent.application_fee_amount = feeOf(rest, percent)
  payment.amount_requested = rest
  openPayment(world, account, invoice, firstPart).is_default = false
}

export function subscriptionOf(invoice: Invoice): string {
  return invoice.parent?.subscription_details?.subscription ?? ''
}

/** Attempts to collect an invoice. If nothing is due, nothing is charged. */
export function submitInvoice(world: World, account: Owner, invoice: Invoice, payer: Payer): void {
  invoice.attempted = true
  invoice.attempt_count += 1
  if (invoice.amount_due === 0) return
  for (const { intent } of collectionsOf(world, account, invoice))
    submitPayment(world, account, intent, payer)
}

/** Settles an attempt. `attempt` overrides its number, for a manual retry or a jump to the last attempt. */
export function settleInvoice(
  world: World,
  account: Owner,
  invoice: Invoice,
  result: PaymentOutcome,
  attempt?: Attempt,
): void {
  if (attempt !== undefined) invoice.attempt_count = attempt.count
  invoice.next_payment_attempt = attempt?.next ?? null
  const collections = invoice.amount_due > 0 ? collectionsOf(world, account, invoice) : []
  for (const { intent, payment } of collections) {
    settlePayment(world, account, intent, result)
    if (result === 'succeeded') markPaymentPaid(payment, world.clock.now())
  }
  if (result === 'failed') {
    invoice.auto_advance = invoice.next_payment_attempt !== null
    world.emitter.emit(account, 'invoice.payment_failed', invoice)
    return
  }
  invoice.status = 'paid'
  invoice.amount_paid = invoice.amount_due
  invoice.amount_remaining = 0
  invoice.auto_advance = false
  invoice.status_transitions.paid_at = world.clock.now()
  world.emitter.emit(account, 'invoice.paid', invoice)
  world.emitter.emit(account, 'invoice.payment_succeeded', invoice)
  for (const { payment } of collections) world.emitter.emit(account, 'invoice_payment.paid', payment)
}

function markPaymentPaid(payment: InvoicePayment, now: number): void {
  payment.status = 'paid'
  payment.amount_paid = payment.amount_requested
  payment.status_transitions.paid_at = now
}

interface Collection {
  intent: PaymentIntent
  payment: InvoicePayment
}

/** The payments of an invoice, the default one last: the others were made before it. */
function collectionsOf(world: World, account: Owner, invoice: Invoice): [Collection, ...Collection[]] {
  const payments = world.invoicePayments.list(account, (each) => each.invoice === invoice.id)
  if (payments.length === 0) throw new Error(`invoice ${invoice.id} has no payment`)
  const inOrder = payments.toSorted((a, b) => Number(a.is_default) - Number(b.is_default))
  return inOrder.map((payment) => {
    const intentId = payment.payment.payment_intent ?? ''
    return { payment, intent: findOwned(world.paymentIntents, 'payment_intent', account, intentId) }
  }) as [Collection, ...Collection[]]
}

/** Percent of the total with at most two decimals, rounded half up, in whole minor units. */
export function feeOf(amount: number, percent: number | null): number | null {
  if (percent === null || percent === 0) return null
  const basisPoints = BigInt(Math.round(percent * 100))
  return Number((BigInt(amount) * basisPoints + 5_000n) / 10_000n)
}

const day = 24 * 3600

/** Delays before the second, third and fourth attempt. The fourth is the last. */
const retryDelays = [3 * day, 5 * day, 7 * day]

export type Failure = {
  /** A manual retry, which Stripe does not count. */
  manual: boolean
  afterFinal: FinalAction
}

/** The latest invoice of a subscription, if it is unpaid: a draft, or open. A draft kept by paused collection is excluded. */
export function unpaidInvoice(world: World, account: Owner, subscription: Subscription): Invoice | undefined {
  const latest = world.invoices.find(account, subscription.latest_invoice ?? '')
  if (latest?.status === 'draft' && !latest.auto_advance) return undefined
  return latest?.status === 'open' || latest?.status === 'draft' ? latest : undefined
}

/** @param firstPart is paid by a payment of its own */
export function payInvoice(
  world: World,
  account: Owner,
  subscription: Subscription,
  invoice: Invoice,
  firstPart?: number,
): void {
  if (firstPart !== undefined) {
    if (invoice.status === 'draft') finalizeInvoice(world, account, invoice)
    splitPayment(world, account, invoice, firstPart)
  }
  submit(world, account, invoice)
  settleInvoice(world, account, invoice, 'succeeded')
  const isTrialing = (subscription.trial_end ?? 0) > world.clock.now()
  if (subscription.status !== 'active' && !isTrialing) {
    updateSubscription(world, account, subscription, { status: 'active' })
  }
}

/** Calls `collect` for the invoice, unless collection is paused. */
export function unlessPaused(
  world: World,
  account: Owner,
  { pause_collection: pause }: Subscription,
  invoice: Invoice,
  collect: () => void,
): void {
  if (pause === null) return collect()
  if (pause.behavior === 'keep_as_draft') {
    invoice.auto_advance = false
    invoice.automatically_finalizes_at = null
    return
  }
  finalizeInvoice(world, account, invoice)
  const now = world.clock.now()
  invoice.auto_advance = false
  if (pause.behavior === 'void') {
    invoice.status = 'void'
    invoice.status_transitions.voided_at = now
    world.emitter.emit(account, 'invoice.voided', invoice)
  } else {
    invoice.status = 'uncollectible'
    invoice.status_transitions.marked_uncollectible_at = now
    world.emitter.emit(account, 'invoice.marked_uncollectible', invoice)
  }
}

export function declineInvoice(
  world: World,
  account: Owner,
  subscription: Subscription,
  invoice: Invoice,
  failure: Failure,
): void {
  const before = invoice.attempt_count
  submit(world, account, invoice)
  const count = failure.manual ? Math.max(before, 1) : before + 1
  const delay = retryDelays[count - 1]
  const next = delay === undefined ? null : world.clock.now() + delay
  settleInvoice(world, account, invoice, 'failed', { count, next })
  markPastDue(world, account, subscription.id)
  if (next !== null) return
  if (failure.afterFinal === 'cancel') endSubscription(world, account, subscription, 'payment_failed')
  if (failure.afterFinal === 'unpaid') updateSubscription(world, account, subscription, { status: 'unpaid' })
}

function submit(world: World, account: Owner, invoice: Invoice): void {
  if (invoice.status === 'draft') finalizeInvoice(world, account, invoice)
  submitInvoice(world, account, invoice, { method: 'card', email: invoice.customer_email ?? '' })
}
