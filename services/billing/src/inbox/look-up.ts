import type { BillingDeps } from '../dependencies.ts'
import { readSession } from '../checkout-sessions/session-queries.ts'
import { writeSession } from '../checkout-sessions/session-queries.ts'
import { paymentStates } from '../checkout-sessions/session-queries.ts'
import { findCharges } from '../facts/charge-facts.ts'
import { recordFact } from '../facts/record-fact.ts'
import { findInvoices, writeInvoicePayment } from '../facts/subscription-facts.ts'
import { paymentRefsOf } from '../settlement/story.ts'

/** How a look-up ended: all is known, the processor has no such thing, or it gave no answer. */
export type Found = 'known' | 'absent' | 'failing'

/** Asks the processor for what its events do not tell of a paid session: the charge, and the subscription's period. */
export async function lookUpSession(deps: BillingDeps, sessionId: string): Promise<Found> {
  const session = await readSession(deps.sql, sessionId)
  if (!session || session.payment_state !== paymentStates.paid) return 'known'
  const { merchant, subscription_ref: subscriptionRef, invoice_ref: invoiceRef } = session
  const found: Found[] = []
  if (session.mode === 'subscription' && subscriptionRef !== null) {
    const known = await findInvoices(deps.sql, merchant, subscriptionRef)
    const wanted = known.filter((invoice) => invoice.payment_ref === null && invoice.amount > 0n)
    const refs = new Set(wanted.map((invoice) => invoice.invoice_ref))
    if (invoiceRef !== null && !known.some((invoice) => invoice.invoice_ref === invoiceRef))
      refs.add(invoiceRef)
    for (const ref of refs) found.push(await attempt(() => lookUpInvoice(deps, merchant, ref)))
    if (session.status === 'open' && !known.some((invoice) => invoice.period_end !== null)) {
      found.push(await attempt(() => lookUpPeriod(deps, sessionId, merchant, subscriptionRef)))
    }
  }
  const invoices = subscriptionRef === null ? [] : await findInvoices(deps.sql, merchant, subscriptionRef)
  const paymentRefs = paymentRefsOf(session, invoices)
  const charges = await findCharges(deps.sql, merchant, paymentRefs)
  for (const paymentRef of paymentRefs) {
    if (charges.get(paymentRef)?.charged_at) continue
    found.push(await attempt(() => lookUpCharge(deps, merchant, paymentRef)))
  }
  if (found.includes('failing')) return 'failing'
  return found.includes('absent') ? 'absent' : 'known'
}

async function attempt(look: () => Promise<boolean>): Promise<Found> {
  try {
    return (await look()) ? 'known' : 'absent'
  } catch {
    return 'failing'
  }
}

async function lookUpInvoice(
  { sql, processor }: BillingDeps,
  merchant: string,
  invoiceRef: string,
): Promise<boolean> {
  const invoice = await processor.findInvoice(merchant, invoiceRef)
  if (invoice?.paid) await recordFact(sql, merchant, invoice.paid, new Date())
  if (invoice?.paymentRef === undefined) return false
  await writeInvoicePayment(sql, merchant, invoiceRef, invoice.paymentRef)
  return true
}

async function lookUpPeriod(
  { sql, processor }: BillingDeps,
  sessionId: string,
  merchant: string,
  subscriptionRef: string,
): Promise<boolean> {
  const periodEnd = await processor.findPeriodEnd(merchant, subscriptionRef)
  if (periodEnd) await writeSession(sql, sessionId, { period_end: periodEnd })
  return periodEnd !== undefined
}

async function lookUpCharge(
  { sql, processor }: BillingDeps,
  merchant: string,
  paymentRef: string,
): Promise<boolean> {
  const charge = await processor.findCharge(merchant, { paymentRef })
  if (charge) await recordFact(sql, merchant, charge, new Date())
  return charge !== undefined
}
