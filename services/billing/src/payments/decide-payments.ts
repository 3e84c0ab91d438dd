import { newId } from '@licensing/database/ids'
import { feeOf } from '../fees/fee.ts'
import type { PaymentRow } from './payment-queries.ts'
import { ask, differ, hasPassed } from '../purchases/decide/decision.ts'
import type { Subject } from '../purchases/decide/decision.ts'
import { chargeNamed, mergeCharge, ofKind } from '../purchases/decide/merge-facts.ts'
import type { Charge, Invoice } from '../purchases/decide/merge-facts.ts'
import { timing } from '../purchases/timing.ts'

/** Columns that change when more becomes known about a payment. */
const changingColumns: (keyof PaymentRow)[] = [
  'amount',
  'currency',
  'fee_minor',
  'payment_ref',
  'charge_ref',
  'charged_at',
  'charge_state',
]

export interface ChargedPayment {
  payment: PaymentRow
  /** Null for the payment of the checkout itself. */
  invoice: Invoice | null
  charge: Charge | undefined
}

/** All payments of the purchase: the payment of the checkout, and the payment of each later invoice. */
export function decidePayments(subject: Subject): ChargedPayment[] {
  const later = subject.invoices.filter((invoice) => invoice.reason !== 'first')
  return [null, ...later].map((invoice) => decidePayment(subject, invoice))
}

function decidePayment(subject: Subject, invoice: Invoice | null): ChargedPayment {
  const { history, decision } = subject
  const known = history.payments.find((payment) => payment.invoice_ref === (invoice?.invoiceRef ?? null))
  const found = paidBy(subject, invoice, known)
  const charge = found.paymentRef === null ? undefined : mergeCharge(history.facts, found.paymentRef)
  const payment = paymentRow(subject, invoice, known, found.paymentRef, charge)
  payment.charge_state = chargeState(subject, payment, charge, found.invoiceRef, invoice)
  const learned = known?.charge_state === 'absent' && known.payment_ref !== payment.payment_ref
  if (learned && payment.payment_ref !== null && !charge) ask(subject, 'charge', payment.payment_ref, 0)
  if (!known || differ(known, payment, changingColumns)) decision.payments.push(payment)
  return { payment, invoice, charge }
}

/** The payment of an invoice, or, if it is not known, the invoice to ask the processor for. */
function paidBy(
  { history, checkout, invoices }: Subject,
  invoice: Invoice | null,
  known: PaymentRow | undefined,
): { paymentRef: string | null; invoiceRef: string | undefined } {
  const own = invoice ?? invoices.find((each) => each.reason === 'first')
  const invoiceRef = own?.invoiceRef ?? checkout.invoiceRef
  const payments = ofKind(history.facts, 'invoice_payment')
  const paid = payments.find((fact) => fact.invoiceRef === invoiceRef)?.paymentRef
  const direct = invoice ? undefined : checkout.paymentRef
  return { paymentRef: direct ?? paid ?? known?.payment_ref ?? null, invoiceRef }
}

function paymentRow(
  { history, checkout, paidAt }: Subject,
  invoice: Invoice | null,
  known: PaymentRow | undefined,
  paymentRef: string | null,
  charge: Charge | undefined,
): PaymentRow {
  const { session } = history
  // The charged amount counts, even if the price was mapped with another amount.
  const amount = charge?.amount ?? invoice?.amount ?? checkout.amount
  const currency = charge?.currency ?? invoice?.currency ?? checkout.currency
  const money = {
    amount: amount === undefined ? (known?.amount ?? session.amount) : BigInt(amount),
    currency: currency ?? known?.currency ?? session.currency,
  }
  const agreed = money.amount === session.amount && money.currency === session.currency
  const terms = { bps: session.fee_bps, fixedMinor: session.fee_fixed_minor }
  const named = paymentRef === null ? undefined : chargeNamed(history.facts, paymentRef)
  const isCharged = known && history.ledger.some((entry) => entry.payment_id === known.id)
  return {
    id: known?.id ?? newId('pay'),
    account_id: session.account_id,
    application_id: session.application_id,
    session_id: session.id,
    sale_id: null,
    invoice_ref: invoice?.invoiceRef ?? null,
    plan_id: known?.plan_id ?? session.plan_id,
    external_ref: session.external_ref,
    ...money,
    fee_minor: isCharged ? known.fee_minor : agreed ? session.fee_minor : feeOf(money.amount, terms),
    licence_id: known?.licence_id ?? session.licence_id,
    paid_at: new Date(invoice?.paidAt ?? paidAt),
    merchant: session.merchant,
    payment_ref: paymentRef,
    charge_ref: charge?.chargeRef ?? known?.charge_ref ?? named ?? null,
    charged_at: charge ? new Date(charge.chargedAt) : (known?.charged_at ?? null),
    charge_state: known?.charge_state ?? 'pending',
  }
}

/**
 * `pending` while the charge may still become known. The fee waits for it, because it belongs to the month of the
 * charge.
 */
function chargeState(
  subject: Subject,
  payment: PaymentRow,
  charge: Charge | undefined,
  invoiceRef: string | undefined,
  invoice: Invoice | null,
): PaymentRow['charge_state'] {
  if (charge) return 'known'
  const { mode } = subject.history.session
  const { payment_ref: paymentRef } = payment
  if (payment.amount === 0n || (mode === 'payment' && paymentRef === null)) return 'none'
  if (payment.charge_state !== 'pending') return payment.charge_state
  const { recordedMs: sinceMs } = invoice ?? subject.checkout
  if (paymentRef !== null) return ask(subject, 'charge', paymentRef, sinceMs).waiting ? 'pending' : 'absent'
  if (invoiceRef !== undefined)
    return ask(subject, 'invoice', invoiceRef, sinceMs).waiting ? 'pending' : 'absent'
  return hasPassed(subject, sinceMs + timing.othersArrive) ? 'absent' : 'pending'
}
