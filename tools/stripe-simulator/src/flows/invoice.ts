import { impossible } from '../api/errors.ts'
import { emit } from '../events.ts'
import { newInvoice, newInvoicePayment, type NewInvoice } from '../objects/invoice.ts'
import type { Invoice, InvoicePayment, PaymentIntent, Subscription } from '../objects/wire.ts'
import { add, need, ownerOf, settingsOf, type World } from '../world.ts'
import { openIntent, settlePayment, submitPayment, type Payer, type PaymentOutcome } from './payment.ts'

export function draftInvoice(
  world: World,
  wanted: Omit<NewInvoice, 'created' | 'startingBalance' | 'taxPercent'>,
): Invoice {
  const { subscription } = wanted
  const account = ownerOf(world, subscription)
  const invoice = newInvoice({
    ...wanted,
    created: world.now,
    startingBalance: ledgerOf(world, subscription).balance,
    taxPercent: settingsOf(world, account).taxPercent,
  })
  add(world, world.invoices, account, invoice)
  subscription.latest_invoice = invoice.id
  return invoice
}

/** Finalizes a draft, so that it can be collected. The customer's credit is used first. */
export function finalizeInvoice(world: World, invoice: Invoice): void {
  const ledger = ledgerOf(world, subscriptionOf(world, invoice))
  ledger.balance = Math.min(0, invoice.total + invoice.starting_balance)
  invoice.ending_balance = ledger.balance
  invoice.number = `SIM-${String(world.invoices.size).padStart(4, '0')}`
  invoice.status = 'open'
  invoice.effective_at = world.now
  invoice.automatically_finalizes_at = null
  invoice.status_transitions.finalized_at = world.now
  invoice.webhooks_delivered_at = world.now
  if (invoice.amount_due > 0) openPayment(world, invoice, invoice.amount_due)
}

export function ledgerOf(world: World, { id }: Subscription) {
  return need(world.ledgers, 'subscription', id)
}

export function subscriptionOf(world: World, invoice: Invoice): Subscription {
  return need(world.subscriptions, 'subscription', invoice.parent?.subscription_details?.subscription ?? null)
}

function openPayment(world: World, invoice: Invoice, amount: number): InvoicePayment {
  const { application_fee_percent, customer } = subscriptionOf(world, invoice)
  const account = ownerOf(world, invoice)
  const intent = openIntent(world, account, {
    amount,
    currency: invoice.currency,
    applicationFeeAmount: feeOf(amount, application_fee_percent),
    customer,
    // Metadata of a subscription does not reach its payments.
    metadata: {},
  })
  return add(world, world.invoicePayments, account, newInvoicePayment(world.now, invoice, intent))
}

/** Adds a payment of a part of an open invoice, so that the default payment is for the rest. */
export function splitPayment(world: World, invoice: Invoice, firstPart: number): void {
  const rest = invoice.amount_due - firstPart
  const [first] = paymentsOf(world, invoice)
  if (first === undefined || rest <= 0) throw impossible(`${invoice.id} has ${invoice.amount_due} to pay`)
  first.intent.amount = rest
  first.intent.application_fee_amount = feeOf(rest, subscriptionOf(world, invoice).application_fee_percent)
  first.payment.amount_requested = rest
  openPayment(world, invoice, firstPart).is_default = false
}

/** Attempts to collect an invoice. If nothing is due, nothing is charged. */
export function submitInvoice(world: World, invoice: Invoice, payer: Payer): void {
  invoice.attempted = true
  invoice.attempt_count += 1
  for (const { intent } of paymentsOf(world, invoice)) submitPayment(world, intent, payer)
}

/** Settles an attempt. `attempt` overrides its number, because Stripe does not count manual retries. */
export function settleInvoice(
  world: World,
  invoice: Invoice,
  result: PaymentOutcome,
  attempt: { count: number; next: number | null } = { count: invoice.attempt_count, next: null },
): void {
  invoice.attempt_count = attempt.count
  invoice.next_payment_attempt = attempt.next
  const payments = paymentsOf(world, invoice)
  for (const { intent, payment } of payments) {
    settlePayment(world, intent, result)
    if (result === 'failed') continue
    payment.status = 'paid'
    payment.amount_paid = payment.amount_requested
    payment.status_transitions.paid_at = world.now
  }
  if (result === 'failed') {
    invoice.auto_advance = invoice.next_payment_attempt !== null
    emit(world, 'invoice.payment_failed', invoice)
    return
  }
  invoice.status = 'paid'
  invoice.amount_paid = invoice.amount_due
  invoice.amount_remaining = 0
  invoice.auto_advance = false
  invoice.status_transitions.paid_at = world.now
  emit(world, 'invoice.paid', invoice)
  emit(world, 'invoice.payment_succeeded', invoice)
  for (const { payment } of payments) emit(world, 'invoice_payment.paid', payment)
}

/** The payments of an invoice, the default one last. There are none if nothing is due. */
function paymentsOf(world: World, invoice: Invoice): { intent: PaymentIntent; payment: InvoicePayment }[] {
  return [...world.invoicePayments.values()]
    .filter((payment) => payment.invoice === invoice.id)
    .toSorted((a, b) => Number(a.is_default) - Number(b.is_default))
    .map((payment) => ({
      payment,
      intent: need(world.paymentIntents, 'payment_intent', payment.payment.payment_intent ?? null),
    }))
}

/** Percent of the total with at most two decimals, rounded half up, in whole minor units. */
export function feeOf(amount: number, percent: number | null): number | null {
  if (percent === null || percent === 0) return null
  const basisPoints = BigInt(Math.round(percent * 100))
  return Number((BigInt(amount) * basisPoints + 5_000n) / 10_000n)
}
