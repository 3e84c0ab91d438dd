import type { SessionRow } from '../../checkout-sessions/session-queries.ts'
import { decideEffects } from './decide-effects.ts'
import { decideFees } from './decide-fees.ts'
import { decidePayments } from './decide-payments.ts'
import { decideRefunds } from './decide-refunds.ts'
import { combine } from './decision.ts'
import type { Decision, History, Rules, Subject } from './decision.ts'
import { mergeCheckout, mergeInvoices } from './merge-facts.ts'
import type { Checkout } from './merge-facts.ts'
import { PurchasedItem } from './purchased-item.ts'

/**
 * Decides what follows from all facts of a checkout and was not decided before. It is a pure function: the same facts lead to
 * the same decisions, in any order in which they became known.
 */
export function decide(history: History, now: Date, rules: Rules): Decision {
  const { session, facts, prices } = history
  const checkout = mergeCheckout(facts, session.checkout_ref)
  const changes = sessionChanges(session, checkout)
  const { paidAt } = checkout
  if (paidAt === undefined) return combine(changes, [])
  const invoices = mergeInvoices(facts, checkout.invoiceRef, new PurchasedItem(session.price_id, prices))
  const subject: Subject = { history, checkout, paidAt, invoices, now, rules }
  const payments = decidePayments(subject)
  const refunded = payments.map((payment) => decideRefunds(subject, payment))
  const fees = refunded.map((payment) => decideFees(subject, payment))
  const effects = decideEffects(subject, refunded)
  return combine(changes, [...[...payments, ...refunded].map(({ part }) => part), ...fees, effects])
}

/** Changes of the session's own row that follow from the facts. */
function sessionChanges(session: SessionRow, checkout: Checkout): Partial<SessionRow> {
  const { state, paidAt } = checkout
  const change: Partial<SessionRow> = {}
  if (session.status === 'open' && state === 'expired') change.status = 'expired'
  if (session.status === 'open' && state === 'failed') change.status = 'canceled'
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
