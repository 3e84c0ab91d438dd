import { paymentStates } from '../../checkout-sessions/session-queries.ts'
import type { SessionRow } from '../../checkout-sessions/session-queries.ts'
import { decideEffects } from './decide-effects.ts'
import { decideFees } from './decide-fees.ts'
import { decidePayments } from './decide-payments.ts'
import { decideRefunds } from './decide-refunds.ts'
import { nothingDecided } from './decision.ts'
import type { Decision, History, Rules, Subject } from './decision.ts'
import { mergeCheckout, mergeInvoices } from './merge-facts.ts'
import type { Checkout } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'

/**
 * Decides what follows from all facts of a checkout and was not decided before. It is a pure function: the same facts lead to
 * the same decisions, in any order in which they became known.
 */
export function decide(history: History, now: Date, rules: Rules): Decision {
  const decision = nothingDecided()
  const { session } = history
  const checkout = mergeCheckout(history.facts, session.checkout_ref)
  decision.session = sessionChanges(session, checkout)
  if (checkout.state !== 'paid' || checkout.paidAt === undefined) {
    const status = checkout.state && statusWithoutPayment[checkout.state]
    if (status && session.status === 'open') decision.session.status = status
    return decision
  }
  const item = new PurchasedItem(session.price_id, history.prices)
  const invoices = mergeInvoices(history.facts, checkout.invoiceRef, item)
  const subject: Subject = { history, checkout, paidAt: checkout.paidAt, invoices, now, rules, decision }
  const payments = decidePayments(subject)
  const withRefunds = payments.map((payment) => decideRefunds(subject, payment))
  for (const each of withRefunds) decideFees(subject, each)
  decideEffects(subject, withRefunds)
  return decision
}

/** The status of a session whose checkout ended without a payment. */
const statusWithoutPayment = {
  unpaid: undefined,
  expired: 'expired',
  failed: 'canceled',
  paid: undefined,
} as const

/** Changes of the session's own row that follow from the facts. */
function sessionChanges(session: SessionRow, checkout: Checkout): Partial<SessionRow> {
  const { state, paidAt } = checkout
  const change: Partial<SessionRow> = {}
  const paymentState = state === undefined ? 0 : paymentStates[state]
  if (paymentState > session.payment_state) change.payment_state = paymentState
  if (paidAt !== undefined && session.paid_at?.getTime() !== paidAt) {
    change.paid_at = new Date(paidAt)
    change.paid_amount = checkout.amount === undefined ? null : BigInt(checkout.amount)
    change.paid_currency = checkout.currency ?? null
  }
  const refs = {
    payment_ref: checkout.paymentRef,
    invoice_ref: checkout.invoiceRef,
    subscription_ref: checkout.subscriptionRef,
  }
  for (const name of ['payment_ref', 'invoice_ref', 'subscription_ref'] as const) {
    const ref = refs[name]
    if (ref !== undefined && session[name] === null) change[name] = ref
  }
  return change
}
