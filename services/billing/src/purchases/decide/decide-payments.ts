import { newId } from '@licensing/database/ids'
import { feeOf } from '../../fees/fee.ts'
import type { PaymentRow } from '../../payments/payment-queries.ts'
import { ask, allOf, differ, until, waitsOf } from './decision.ts'
import type { Decided, Part, Subject } from './decision.ts'
import { chargeNamed, mergeCharge, ofKind } from './merge-facts.ts'
import type { Charge, Checkout, Invoice } from './merge-facts.ts'
import { timing } from '../../timing.ts'

/** Columns that change when more becomes known about a payment. */
export const changingColumns: readonly (keyof PaymentRow)[] = [
  'amount',
  'currency',
  'fee_minor',
  'payment_ref',
  'charge_ref',
  'other_charge_refs',
  'charged_at',
  'charge_state',
]

/** A charge of a payment, by the reference of the payment at the processor. */
export interface PaymentPart {
  paymentRef: string
  charge: Charge | undefined
  /** The id of the charge, also if only a refund or a dispute names it. */
  chargeRef: string | undefined
}

export interface ChargedPayment {
  payment: PaymentRow
  /** Null for the payment of the checkout itself. */
  invoice: Invoice | null
  /** In the order in which they were charged. An invoice may be paid in several parts. */
  parts: PaymentPart[]
  part: Part
}

/** All payments of the purchase: the payment of the checkout, and the payment of each later invoice. */
export function decidePayments(subject: Subject): ChargedPayment[] {
  const later = subject.invoices.filter((invoice) => invoice.reason !== 'first')
  return [null, ...later].map((invoice) => decidePayment(subject, invoice))
}

function decidePayment(subject: Subject, invoice: Invoice | null): ChargedPayment {
  const { history, checkout, invoices } = subject
  const known = history.payments.find((payment) => payment.invoice_ref === (invoice?.invoiceRef ?? null))
  const own = invoice ?? invoices.find((each) => each.reason === 'first')
  const invoiceRef = own?.invoiceRef ?? checkout.invoiceRef
  const parts = partsOf(subject, invoice, invoiceRef, known)
  const due = moneyOf(own ?? checkout)
  const state = chargeState(subject, { invoice, invoiceRef, known, parts, due })
  const charge_state = 'now' in state ? state.now : 'pending'
  const charged = chargedBy(parts)
  // The charged amount counts, even if the price was mapped with another amount.
  const money = (charge_state === 'known' ? charged : undefined) ?? due ?? charged
  const payment = { ...paymentRow(subject, invoice, known, parts, money), charge_state }
  // The processor may find a charge later that it did not find at first.
  const missing = known?.charge_state === 'absent' ? parts.filter(({ charge }) => !charge) : []
  const asked = missing.map(({ paymentRef }) => ask(subject, 'charge', paymentRef, 0))
  const isChanged = !known || differ(known, payment, changingColumns)
  const part = { payments: isChanged ? [payment] : [], waits: waitsOf(state, ...asked) }
  return { payment, invoice, parts, part }
}

/** The parts of a payment that are known. */
function partsOf(
  { history, checkout }: Subject,
  invoice: Invoice | null,
  invoiceRef: string | undefined,
  known: PaymentRow | undefined,
): PaymentPart[] {
  const { facts } = history
  const paid = ofKind(facts, 'invoice_payment').filter((fact) => fact.invoiceRef === invoiceRef)
  const direct = (invoice ?? checkout).paymentRef
  const found = [...(direct === undefined ? [] : [direct]), ...paid.map((fact) => fact.paymentRef)]
  const refs = found.length > 0 || !known?.payment_ref ? found : [known.payment_ref]
  const parts = [...new Set(refs)].map((paymentRef) => {
    const charge = mergeCharge(facts, paymentRef)
    return { paymentRef, charge, chargeRef: charge?.chargeRef ?? chargeNamed(facts, paymentRef) }
  })
  const orderOf = ({ charge, paymentRef }: PaymentPart) =>
    [charge?.chargedAt ?? Infinity, charge?.chargeRef ?? paymentRef] as const
  return parts.sort((a, b) => {
    const [[at, ref], [otherAt, otherRef]] = [orderOf(a), orderOf(b)]
    return at === otherAt ? (ref < otherRef ? -1 : 1) : at - otherAt
  })
}

interface Money {
  amount: number
  currency: string
}

function moneyOf({ amount, currency }: Pick<Checkout, keyof Money>): Money | undefined {
  return amount === undefined || currency === undefined ? undefined : { amount, currency }
}

/** The sum of the parts; undefined while the charge of one of them is not known. */
function chargedBy(parts: PaymentPart[]): Money | undefined {
  const charges = parts.flatMap(({ charge }) => charge ?? [])
  const [first] = charges
  if (!first || charges.length < parts.length) return undefined
  return { amount: charges.reduce((sum, { amount }) => sum + amount, 0), currency: first.currency }
}

function paymentRow(
  { history, paidAt }: Subject,
  invoice: Invoice | null,
  known: PaymentRow | undefined,
  parts: PaymentPart[],
  paid: Money | undefined,
): PaymentRow {
  const { session } = history
  const money = paid
    ? { amount: BigInt(paid.amount), currency: paid.currency }
    : { amount: known?.amount ?? session.amount, currency: known?.currency ?? session.currency }
  const agreed = money.amount === session.amount && money.currency === session.currency
  const terms = { bps: session.fee_bps, fixedMinor: session.fee_fixed_minor }
  const isCharged = known && history.ledger.some((entry) => entry.payment_id === known.id)
  const [first, ...others] = parts
  const charge = first?.charge
  return {
    id: known?.id ?? newId('pay'),
    account_id: session.account_id,
    application_id: session.application_id,
    purchase_ref: session.id,
    sale_id: session.sale_id,
    invoice_ref: invoice?.invoiceRef ?? null,
    plan_id: known?.plan_id ?? session.plan_id,
    external_ref: session.external_ref,
    ...money,
    fee_minor: isCharged ? known.fee_minor : agreed ? session.fee_minor : feeOf(money.amount, terms),
    licence_id: known?.licence_id ?? session.licence_id,
    paid_at: new Date(invoice?.paidAt ?? paidAt),
    merchant: session.merchant,
    payment_ref: first?.paymentRef ?? null,
    charge_ref: first?.chargeRef ?? known?.charge_ref ?? null,
    other_charge_refs: others.flatMap(({ chargeRef }) => chargeRef ?? []),
    charged_at: charge ? new Date(charge.chargedAt) : (known?.charged_at ?? null),
    charge_state: known?.charge_state ?? 'pending',
  }
}

interface Charging extends Pick<ChargedPayment, 'invoice' | 'parts'> {
  invoiceRef: string | undefined
  known: PaymentRow | undefined
  /** The sum that the customer had to pay. */
  due: Money | undefined
}

/**
 * Waits while a charge may still become known. The fee waits for all of them, because it belongs to the month of the first
 * charge and is a part of their sum. If the known charges are less than the invoice, the processor is asked for others.
 */
function chargeState(
  subject: Subject,
  { invoice, invoiceRef, known, parts, due }: Charging,
): Decided<PaymentRow['charge_state']> {
  const { recordedMs: sinceMs } = invoice ?? subject.checkout
  const charged = chargedBy(parts)
  if (charged) {
    const isLess = due !== undefined && due.currency === charged.currency && charged.amount < due.amount
    const others = isLess && invoiceRef !== undefined && ask(subject, 'invoice', invoiceRef, sinceMs)
    return others && 'later' in others ? others : { now: 'known' }
  }
  const { mode, amount } = subject.history.session
  const toPay = due?.amount ?? Number(known?.amount ?? amount)
  if (toPay === 0 || (mode === 'payment' && parts.length === 0)) return { now: 'none' }
  if (known && known.charge_state !== 'pending') return { now: known.charge_state }
  const unknown = parts.filter(({ charge }) => !charge)
  const answered =
    parts.length > 0
      ? allOf(...unknown.map(({ paymentRef }) => ask(subject, 'charge', paymentRef, sinceMs)))
      : invoiceRef === undefined
        ? until(subject, sinceMs + timing.othersArrive)
        : ask(subject, 'invoice', invoiceRef, sinceMs)
  return 'later' in answered ? answered : { now: 'absent' }
}
