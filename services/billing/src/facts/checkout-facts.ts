import type { Transaction } from '@licensing/database/connect'
import { paymentStates } from '../checkout-sessions/session-queries.ts'
import type { CheckoutFact } from '../processors/facts.ts'
import type { Subject } from './subjects.ts'

/** A state that has been passed changes nothing more; the time of payment is the first that was told. */
export async function recordCheckout(
  tx: Transaction,
  merchant: string,
  fact: CheckoutFact,
): Promise<Subject> {
  const state = paymentStates[fact.state]
  const paid = fact.state === 'paid'
  const [row] = await tx<{ id: string }[]>`
    update checkout_sessions s set
      checkout_ref = coalesce(s.checkout_ref, ${fact.checkoutRef}),
      payment_ref = coalesce(${fact.paymentRef ?? null}, s.payment_ref),
      invoice_ref = coalesce(${fact.invoiceRef ?? null}, s.invoice_ref),
      subscription_ref = coalesce(${fact.subscriptionRef ?? null}, s.subscription_ref),
      payment_state = greatest(s.payment_state, ${state}),
      paid_amount = coalesce(s.paid_amount, ${paid ? (fact.amount ?? null) : null}),
      paid_currency = coalesce(s.paid_currency, ${paid ? (fact.currency ?? null) : null}),
      paid_at = least(s.paid_at, ${paid ? fact.at : null})
    where s.id = (
      select id from checkout_sessions
      where merchant = ${merchant} and (id = ${fact.sessionId ?? null} or checkout_ref = ${fact.checkoutRef})
      order by (id = ${fact.sessionId ?? ''}) desc, id desc limit 1
    )
    returning s.id`
  return row ? { sessionId: row.id } : {}
}
