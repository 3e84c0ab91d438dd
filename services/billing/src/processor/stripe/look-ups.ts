import type Stripe from 'stripe'
import { currentMs } from '@licensing/process/clock'
import type {
  ChargeFact,
  InvoicePaidFact,
  InvoicePaymentFact,
  SubscriptionFact,
  SubscriptionItem,
} from '../facts.ts'
import type { ChargeRecords } from '../processor.ts'
import { connectedAccountOf } from './client.ts'
import { lookUp } from './failures.ts'
import { readCharge, readDispute, readInvoicePayment, readPaidInvoice, readRefund } from './read.ts'
import { readItems, readSubscription } from './read-subscription.ts'
import { idIn, shapeOf } from './shape.ts'

const timeoutMs = 1_500
const pageSize = 100

function on(merchant: string): Stripe.RequestOptions {
  return { stripeAccount: connectedAccountOf(merchant), timeout: timeoutMs }
}

/** The charge of a payment. @throws if the payment has no charge yet */
export async function findCharge(
  stripe: Stripe,
  merchant: string,
  paymentRef: string,
): Promise<ChargeFact | undefined> {
  // If a charge has no payment intent, `paymentRef` is the id of the charge.
  const chargeRef = paymentRef.startsWith('pi_')
    ? await latestCharge(stripe, merchant, paymentRef)
    : paymentRef
  if (chargeRef === undefined) return undefined
  const charge = await lookUp(() => stripe.charges.retrieve(chargeRef, {}, on(merchant)))
  const fact = charge && readCharge(shapeOf(charge, 'the charge'), currentMs())
  return fact && { ...fact, paymentRef: fact.paymentRef ?? paymentRef }
}

async function latestCharge(
  stripe: Stripe,
  merchant: string,
  paymentRef: string,
): Promise<string | undefined> {
  const intent = await lookUp(() => stripe.paymentIntents.retrieve(paymentRef, {}, on(merchant)))
  if (!intent) return undefined
  const chargeRef = idIn(shapeOf(intent, 'the payment intent'), 'latest_charge')
  if (chargeRef === undefined) throw new Error(`payment ${paymentRef} has no charge yet`)
  return chargeRef
}

export async function chargeRecords(
  stripe: Stripe,
  merchant: string,
  chargeRef: string,
): Promise<ChargeRecords | undefined> {
  const found = await lookUp(() => stripe.charges.retrieve(chargeRef, {}, on(merchant)))
  const charge = found && readCharge(shapeOf(found, 'the charge'), currentMs())
  if (!found || !charge) return undefined
  const [refunds, disputes] = await Promise.all([
    found.amount_refunded > 0
      ? allOf(stripe.refunds.list({ charge: chargeRef, limit: pageSize }, on(merchant)))
      : [],
    found.disputed ? allOf(stripe.disputes.list({ charge: chargeRef, limit: pageSize }, on(merchant))) : [],
  ])
  return {
    charge,
    refunds: refunds.map((refund) => readRefund(shapeOf(refund, 'a refund'), undefined)),
    disputes: disputes
      .map((dispute) => readDispute(shapeOf(dispute, 'a dispute'), undefined))
      .filter((dispute) => dispute !== undefined),
  }
}

export async function allOf<Item>(list: AsyncIterable<Item>): Promise<Item[]> {
  const items: Item[] = []
  for await (const item of list) items.push(item)
  return items
}

/** A paid invoice with all its lines and the current items of its subscription, and the payments that paid it. */
export async function findInvoice(
  stripe: Stripe,
  merchant: string,
  invoiceRef: string,
): Promise<(InvoicePaidFact | InvoicePaymentFact)[] | undefined> {
  const expand = ['payments', 'parent.subscription_details.subscription']
  const invoice = await lookUp(() => stripe.invoices.retrieve(invoiceRef, { expand }, on(merchant)))
  if (!invoice) return undefined
  const payments =
    (invoice.payments?.has_more === false ? invoice.payments.data : undefined) ??
    (await allOf(stripe.invoicePayments.list({ invoice: invoiceRef, limit: pageSize }, on(merchant))))
  const paid = payments.flatMap((payment) => readInvoicePayment(shapeOf(payment, 'a payment')) ?? [])
  const fact = invoice.status === 'paid' ? await wholeInvoice(stripe, merchant, invoice) : undefined
  return [...(fact ? [fact] : []), ...paid.map((payment) => ({ ...payment, invoiceRef }))]
}

/** Loads the other lines and items: an invoice contains only its first ten lines, and a subscription its first ten items. */
async function wholeInvoice(
  stripe: Stripe,
  merchant: string,
  invoice: Stripe.Invoice,
): Promise<InvoicePaidFact | undefined> {
  const { id, lines } = invoice
  const subscription = invoice.parent?.subscription_details?.subscription
  const [data, items] = await Promise.all([
    lines.has_more ? allOf(stripe.invoices.listLineItems(id, { limit: pageSize }, on(merchant))) : lines.data,
    typeof subscription === 'object' ? itemsOf(stripe, merchant, subscription) : undefined,
  ])
  return readPaidInvoice(shapeOf({ ...invoice, lines: { data } }, 'the invoice'), currentMs(), items)
}

async function itemsOf(
  stripe: Stripe,
  merchant: string,
  { id, items }: Stripe.Subscription,
): Promise<SubscriptionItem[]> {
  const data = items.has_more
    ? await allOf(stripe.subscriptionItems.list({ subscription: id, limit: pageSize }, on(merchant)))
    : items.data
  return readItems(data.map((item) => shapeOf(item, 'an item')))
}

export async function findSubscription(
  stripe: Stripe,
  merchant: string,
  subscriptionRef: string,
): Promise<SubscriptionFact | undefined> {
  const subscription = await lookUp(() => stripe.subscriptions.retrieve(subscriptionRef, {}, on(merchant)))
  if (!subscription) return undefined
  const items = await itemsOf(stripe, merchant, subscription)
  return { ...readSubscription(shapeOf(subscription, 'the subscription')), items }
}
