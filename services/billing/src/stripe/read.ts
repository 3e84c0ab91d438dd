import type Stripe from 'stripe'
import type {
  ChargeFact,
  CheckoutFact,
  DisputeFact,
  InvoiceFailedFact,
  InvoicePaidFact,
  RefundFact,
} from '../processors/facts.ts'

// Stripe's objects read into our words. They come from events and from API calls, of whatever version the endpoint
// or the account has, so a field that is missing is no reason to fail.

/** What a checkout, its payment and its subscription carry of ours. */
export const metadataKeys = {
  sessionId: 'licensing_session_id',
  applicationId: 'application_id',
  planId: 'plan_id',
} as const

type Expandable = string | { id: string } | null | undefined

export function idOf(reference: Expandable): string | undefined {
  return (typeof reference === 'string' ? reference : reference?.id) ?? undefined
}

export function time(seconds: number): Date {
  return new Date(seconds * 1000)
}

function timeOr(seconds: number | null | undefined, otherwise: Date): Date {
  return seconds ? time(seconds) : otherwise
}

function minor(amount: number | null | undefined): bigint | undefined {
  return typeof amount === 'number' ? BigInt(amount) : undefined
}

function sessionIdIn(metadata: Record<string, string> | null | undefined): string | undefined {
  return metadata?.[metadataKeys.sessionId]
}

export function readCheckout(
  session: Stripe.Checkout.Session,
  state: CheckoutFact['state'],
  at: Date,
): CheckoutFact {
  return {
    kind: 'checkout',
    checkoutRef: session.id,
    sessionId: sessionIdIn(session.metadata),
    state,
    amount: minor(session.amount_total),
    currency: session.currency ?? undefined,
    paymentRef: idOf(session.payment_intent),
    subscriptionRef: idOf(session.subscription),
    invoiceRef: idOf(session.invoice),
    at,
  }
}

export function readCharge(charge: Stripe.Charge, at: Date): ChargeFact {
  return {
    kind: 'charge',
    chargeRef: charge.id,
    paymentRef: idOf(charge.payment_intent),
    sessionId: sessionIdIn(charge.metadata),
    amount: minor(charge.amount_captured) ?? BigInt(charge.amount),
    currency: charge.currency,
    chargedAt: timeOr(charge.created, at),
    refunded: minor(charge.amount_refunded) ?? 0n,
    toldAt: at,
  }
}

export function readRefund(refund: Stripe.Refund, toldAt: Date | undefined, before?: string): RefundFact {
  return {
    kind: 'refund',
    refundRef: refund.id,
    chargeRef: idOf(refund.charge),
    paymentRef: idOf(refund.payment_intent),
    amount: BigInt(refund.amount),
    currency: refund.currency,
    createdAt: timeOr(refund.created, toldAt ?? new Date()),
    status: refundStatus(refund.status),
    hadSucceeded: before === 'succeeded',
    toldAt,
  }
}

// A status that is not known yet counts as pending: only a succeeded refund has consequences.
function refundStatus(status: string | null): RefundFact['status'] {
  switch (status) {
    case 'succeeded':
    case 'failed':
    case 'canceled':
      return status
    default:
      return 'pending'
  }
}

/** Undefined for a status that has no meaning here, such as a dispute that was prevented. */
export function readDispute(
  dispute: Stripe.Dispute,
  toldAt: Date | undefined,
  { before, opening = false }: { before?: string | undefined; opening?: boolean } = {},
): DisputeFact | undefined {
  const stage = disputeStage(dispute.status)
  if (!stage) return undefined
  return {
    kind: 'dispute',
    disputeRef: dispute.id,
    chargeRef: idOf(dispute.charge),
    paymentRef: idOf(dispute.payment_intent),
    amount: BigInt(dispute.amount),
    currency: dispute.currency,
    openedAt: timeOr(dispute.created, toldAt ?? new Date()),
    ...stage,
    wasInquiry: before?.startsWith('warning_') ?? false,
    opening,
    toldAt,
  }
}

function disputeStage(status: string): Pick<DisputeFact, 'stage' | 'status'> | undefined {
  switch (status) {
    case 'warning_needs_response':
    case 'warning_under_review':
      return { stage: 'inquiry', status: 'open' }
    case 'warning_closed':
      return { stage: 'inquiry_closed', status: 'closed' }
    case 'needs_response':
    case 'under_review':
    case 'appeal_needs_response':
    case 'appeal_under_review':
      return { stage: 'chargeback', status: 'open' }
    case 'won':
    case 'lost':
      return { stage: 'chargeback', status }
    default:
      return undefined
  }
}

export function readPaidInvoice(invoice: Stripe.Invoice, at: Date): InvoicePaidFact | undefined {
  const details = invoice.parent?.subscription_details
  const subscriptionRef = idOf(details?.subscription)
  if (!invoice.id || !subscriptionRef) return undefined
  const ends = (invoice.lines?.data ?? []).map((line) => line.period?.end ?? 0).filter((end) => end > 0)
  return {
    kind: 'invoice_paid',
    invoiceRef: invoice.id,
    subscriptionRef,
    sessionId: sessionIdIn(details?.metadata),
    first: invoice.billing_reason === 'subscription_create',
    amount: BigInt(invoice.amount_paid),
    currency: invoice.currency,
    periodEnd: ends.length > 0 ? time(Math.max(...ends)) : undefined,
    paidAt: timeOr(invoice.status_transitions?.paid_at, at),
  }
}

/** Undefined for a first invoice: nothing has been sold yet that could be suspended. */
export function readFailedInvoice(invoice: Stripe.Invoice, at: Date): InvoiceFailedFact | undefined {
  const details = invoice.parent?.subscription_details
  const subscriptionRef = idOf(details?.subscription)
  if (!invoice.id || !subscriptionRef || invoice.billing_reason === 'subscription_create') return undefined
  return {
    kind: 'invoice_failed',
    invoiceRef: invoice.id,
    subscriptionRef,
    sessionId: sessionIdIn(details?.metadata),
    attempt: Math.max(1, invoice.attempt_count),
    at,
  }
}
