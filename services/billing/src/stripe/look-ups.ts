import type Stripe from 'stripe'
import type { ChargeFact, DisputeFact, InvoicePaidFact } from '../processors/facts.ts'
import type { ChargeRecords } from '../processors/processor.ts'
import { connectedAccountOf } from './client.ts'
import { lookUp } from './failures.ts'
import { idOf, readCharge, readDispute, readPaidInvoice, readRefund, time } from './read.ts'

const timeoutMs = 1_500

function on(merchant: string): Stripe.RequestOptions {
  return { stripeAccount: connectedAccountOf(merchant), timeout: timeoutMs }
}

export async function findCharge(
  stripe: Stripe,
  merchant: string,
  { paymentRef, chargeRef }: { paymentRef?: string; chargeRef?: string },
): Promise<ChargeFact | undefined> {
  const id = chargeRef ?? (await latestCharge(stripe, merchant, paymentRef))
  if (id === undefined) return undefined
  const charge = await lookUp(() => stripe.charges.retrieve(id, {}, on(merchant)))
  if (!charge) return undefined
  const fact = readCharge(charge, new Date())
  return { ...fact, paymentRef: fact.paymentRef ?? paymentRef }
}

async function latestCharge(
  stripe: Stripe,
  merchant: string,
  paymentRef: string | undefined,
): Promise<string | undefined> {
  // A charge that was made without a payment intent stands for itself.
  if (paymentRef === undefined || !paymentRef.startsWith('pi_')) return paymentRef
  const intent = await lookUp(() => stripe.paymentIntents.retrieve(paymentRef, {}, on(merchant)))
  return idOf(intent?.latest_charge)
}

export async function chargeRecords(
  stripe: Stripe,
  merchant: string,
  chargeRef: string,
): Promise<ChargeRecords | undefined> {
  const charge = await lookUp(() => stripe.charges.retrieve(chargeRef, {}, on(merchant)))
  if (!charge) return undefined
  const now = new Date()
  const [refunds, disputes] = await Promise.all([
    charge.amount_refunded > 0
      ? lookUp(() => stripe.refunds.list({ charge: chargeRef }, on(merchant)))
      : { data: [] },
    charge.disputed ? lookUp(() => stripe.disputes.list({ charge: chargeRef }, on(merchant))) : { data: [] },
  ])
  if (!refunds || !disputes) return undefined
  return {
    charge: readCharge(charge, now),
    refunds: refunds.data.map((refund) => readRefund(refund, undefined)),
    disputes: disputes.data.map((dispute) => readDispute(dispute, undefined)).filter(isKnown),
  }
}

function isKnown(dispute: DisputeFact | undefined): dispute is DisputeFact {
  return dispute !== undefined
}

export async function findInvoice(
  stripe: Stripe,
  merchant: string,
  invoiceRef: string,
): Promise<{ paid: InvoicePaidFact | undefined; paymentRef: string | undefined } | undefined> {
  const invoice = await lookUp(() =>
    stripe.invoices.retrieve(invoiceRef, { expand: ['payments'] }, on(merchant)),
  )
  if (!invoice) return undefined
  const payments =
    invoice.payments ??
    (await lookUp(() => stripe.invoicePayments.list({ invoice: invoiceRef }, on(merchant))))
  const paid = (payments?.data ?? []).find((payment) => payment.status === 'paid')?.payment
  return {
    paid: invoice.status === 'paid' ? readPaidInvoice(invoice, new Date()) : undefined,
    paymentRef: idOf(paid?.payment_intent) ?? idOf(paid?.charge),
  }
}

export async function findPeriodEnd(
  stripe: Stripe,
  merchant: string,
  subscriptionRef: string,
): Promise<Date | undefined> {
  const subscription = await lookUp(() => stripe.subscriptions.retrieve(subscriptionRef, {}, on(merchant)))
  const ends = (subscription?.items?.data ?? []).map((item) => item.current_period_end ?? 0)
  const end = Math.max(0, ...ends)
  return end > 0 ? time(end) : undefined
}
