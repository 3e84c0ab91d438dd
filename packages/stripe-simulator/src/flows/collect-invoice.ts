import { newInvoicePayment } from '../objects/invoice-payment.ts'
import { newInvoice } from '../objects/invoice.ts'
import type { NewInvoice } from '../objects/invoice.ts'
import type { Invoice, InvoicePayment, PaymentIntent } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { openIntent, settlePayment, submitPayment } from './collect-payment.ts'
import type { Payer, PaymentOutcome } from './collect-payment.ts'
import { findOwned } from './find.ts'

export type Attempt = { count: number; next: number | null }

export function openInvoice(
  world: World,
  account: Owner,
  wanted: Omit<NewInvoice, 'created' | 'number'>,
): Invoice {
  const { subscription } = wanted
  const number = `SIM-${String(world.invoices.size + 1).padStart(4, '0')}`
  const invoice = world.invoices.add(account, newInvoice({ ...wanted, created: world.clock.now(), number }))
  subscription.latest_invoice = invoice.id
  if (invoice.amount_due === 0) return invoice
  const intent = openIntent(world, account, {
    amount: invoice.amount_due,
    currency: invoice.currency,
    applicationFeeAmount: feeOf(invoice.amount_due, subscription.application_fee_percent),
    customer: subscription.customer,
    description: subscription.description,
    // Metadata of a subscription does not reach its payments.
    metadata: {},
  })
  world.invoicePayments.add(account, newInvoicePayment(world.clock.now(), invoice, intent))
  return invoice
}

/** One attempt to collect. Nothing is due on a free invoice, so nothing is charged. */
export function submitInvoice(world: World, account: Owner, invoice: Invoice, payer: Payer): void {
  invoice.attempted = true
  invoice.attempt_count += 1
  if (invoice.amount_due > 0)
    submitPayment(world, account, collectionOf(world, account, invoice).intent, payer)
}

/** `attempt` overrides what Stripe would count, for a retry by hand or a jump to the last one. */
export function settleInvoice(
  world: World,
  account: Owner,
  invoice: Invoice,
  result: PaymentOutcome,
  attempt?: Attempt,
): void {
  if (attempt !== undefined) invoice.attempt_count = attempt.count
  invoice.next_payment_attempt = attempt?.next ?? null
  if (invoice.amount_due > 0) {
    const { intent, payment } = collectionOf(world, account, invoice)
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
}

function markPaymentPaid(payment: InvoicePayment, now: number): void {
  payment.status = 'paid'
  payment.amount_paid = payment.amount_requested
  payment.status_transitions.paid_at = now
}

function collectionOf(
  world: World,
  account: Owner,
  invoice: Invoice,
): { intent: PaymentIntent; payment: InvoicePayment } {
  const [payment] = world.invoicePayments.list(account, (each) => each.invoice === invoice.id)
  if (payment === undefined) throw new Error(`invoice ${invoice.id} has no payment`)
  const intentId = payment.payment.payment_intent ?? ''
  return { payment, intent: findOwned(world.paymentIntents, 'payment_intent', account, intentId) }
}

/** Percent of the total with at most two decimals, rounded half up, in whole minor units. */
export function feeOf(amount: number, percent: number | null): number | null {
  if (percent === null || percent === 0) return null
  const basisPoints = BigInt(Math.round(percent * 100))
  return Number((BigInt(amount) * basisPoints + 5_000n) / 10_000n)
}
