import type { Transaction } from '@licensing/database/connect'
import type { FeeKind } from '@licensing/proto/closed-sets'
import { lockSession } from '../checkout-sessions/session-queries.ts'
import type { SessionRow } from '../checkout-sessions/session-queries.ts'
import { findCharges } from '../facts/charge-facts.ts'
import type { ChargeRow } from '../facts/charge-facts.ts'
import { findDisputes } from '../facts/dispute-facts.ts'
import type { DisputeRow } from '../facts/dispute-facts.ts'
import { findRefundFacts, isRefundMissing } from '../facts/refund-facts.ts'
import type { RefundFactRow } from '../facts/refund-facts.ts'
import { findFailures, findInvoices, findRipeEnd } from '../facts/subscription-facts.ts'
import type { FailureRow, InvoiceRow } from '../facts/subscription-facts.ts'
import { findFeeKinds } from '../fees/ledger-queries.ts'
import { isNewsWaiting } from '../inbox/inbox-queries.ts'
import { findPaymentsOfSession } from '../payments/payment-queries.ts'
import type { PaymentRow } from '../payments/payment-queries.ts'
import { findRefundsOfSession } from '../refunds/refund-queries.ts'
import type { RefundRow } from '../refunds/refund-queries.ts'

/** All that is known of one checkout and what became of it, and all that has been drawn from it so far. */
export interface Story {
  session: SessionRow
  payments: PaymentRow[]
  /** By payment reference. */
  charges: Map<string, ChargeRow>
  refundFacts: RefundFactRow[]
  disputes: DisputeRow[]
  invoices: InvoiceRow[]
  failures: FailureRow[]
  subscriptionEndedAt: Date | undefined
  /** What has been recorded of refunds and chargebacks, by the processor's reference. */
  refunds: Map<string, RefundRow>
  /** What the ledger has, by payment. */
  fees: Map<string, Set<FeeKind>>
  /** Nothing is drawn from refunds and disputes for now: more of them are coming. */
  hold: boolean
}

/**
 * Reads a session's story with the session locked, so that one at a time draws from it.
 *
 * @param patient whether refunds and disputes may wait for others of which the inbox or the charge shows signs
 */
export async function lockStory(
  tx: Transaction,
  sessionId: string,
  patient = false,
): Promise<Story | undefined> {
  const session = await lockSession(tx, sessionId)
  if (!session) return undefined
  const { merchant, subscription_ref: subscriptionRef } = session
  // Before the facts are read: then they have all that the events seen here tell.
  const newsWaiting = patient && (await isNewsWaiting(tx, merchant))
  const [drawn, invoices, failures, subscriptionEndedAt] = await Promise.all([
    readDrawn(tx, sessionId),
    subscriptionRef === null ? [] : findInvoices(tx, merchant, subscriptionRef),
    subscriptionRef === null ? [] : findFailures(tx, merchant, subscriptionRef),
    subscriptionRef === null ? undefined : findRipeEnd(tx, merchant, subscriptionRef),
  ])
  const refs = paymentRefsOf(session, invoices)
  const [charges, refundFacts, disputes, refundMissing] = await Promise.all([
    findCharges(tx, merchant, refs),
    findRefundFacts(tx, merchant, refs),
    findDisputes(tx, merchant, refs),
    patient && isRefundMissing(tx, merchant, refs),
  ])
  return {
    session,
    ...drawn,
    charges,
    refundFacts,
    disputes,
    invoices,
    failures,
    subscriptionEndedAt,
    hold: newsWaiting || refundMissing,
  }
}

/** The story after a step in the same transaction: the facts as they were read, and what has been drawn from them. */
export async function afterStep(tx: Transaction, story: Story): Promise<Story> {
  const { id } = story.session
  const [session, drawn] = await Promise.all([lockSession(tx, id), readDrawn(tx, id)])
  return { ...story, ...drawn, session: session! }
}

async function readDrawn(
  tx: Transaction,
  sessionId: string,
): Promise<Pick<Story, 'payments' | 'refunds' | 'fees'>> {
  const [payments, refunds, fees] = await Promise.all([
    findPaymentsOfSession(tx, sessionId),
    findRefundsOfSession(tx, sessionId),
    findFeeKinds(tx, sessionId),
  ])
  return { payments, refunds: new Map(refunds.map((refund) => [refund.ref, refund])), fees }
}

/** The payments that a session's money came by. */
export function paymentRefsOf(session: SessionRow, invoices: InvoiceRow[]): string[] {
  const refs = [session.payment_ref, ...invoices.map((invoice) => invoice.payment_ref)]
  return [...new Set(refs.filter((ref) => ref !== null))]
}
