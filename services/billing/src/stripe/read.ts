import type {
  ChargeFact,
  CheckoutFact,
  DisputeFact,
  InvoiceFailedFact,
  InvoicePaidFact,
  InvoicePaymentFact,
  RefundFact,
  SubscriptionEndedFact,
  SubscriptionFact,
} from '../processors/facts.ts'
import { NotUnderstood } from '../processors/processor.ts'
import {
  idIn,
  listIn,
  optionalShape,
  optionalWhole,
  shapeOf,
  textIn,
  timeIn,
  wholeIn,
  wordIn,
} from './shape.ts'
import type { Shape } from './shape.ts'

// Stripe's objects read into our words, from events and from API calls alike.

/** What a checkout, its payment and its subscription carry of ours. */
export const metadataKeys = {
  sessionId: 'licensing_session_id',
  applicationId: 'application_id',
  planId: 'plan_id',
  amount: 'licensing_amount',
  currency: 'licensing_currency',
  intervalCount: 'licensing_recurring_interval_count',
} as const

function sessionIdIn(object: Shape | undefined): string | undefined {
  const sessionId = optionalShape(object?.['metadata'])?.[metadataKeys.sessionId]
  return typeof sessionId === 'string' ? sessionId : undefined
}

export function readCheckout(object: Shape, state: CheckoutFact['state'], at: number): CheckoutFact {
  const currency = object['currency']
  return {
    kind: 'checkout',
    checkoutRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    state,
    amount: optionalWhole(object, 'amount_total'),
    currency: typeof currency === 'string' ? currency : undefined,
    paymentRef: idIn(object, 'payment_intent'),
    subscriptionRef: idIn(object, 'subscription'),
    invoiceRef: idIn(object, 'invoice'),
    at,
  }
}

/** `unpaid`: a delayed method, whose outcome is reported later. */
export const checkoutPaid = { paid: 'paid', no_payment_required: 'paid', unpaid: 'unpaid' } as const

/** Undefined for a charge that did not succeed: a payment may have such charges beside the one that paid it. */
export function readCharge(object: Shape, reportedAt: number): ChargeFact | undefined {
  if (!wordIn(object, 'status', { succeeded: true, pending: false, failed: false })) return undefined
  return {
    kind: 'charge',
    chargeRef: textIn(object, 'id'),
    paymentRef: idIn(object, 'payment_intent'),
    sessionId: sessionIdIn(object),
    amount: optionalWhole(object, 'amount_captured') || wholeIn(object, 'amount'),
    currency: textIn(object, 'currency'),
    chargedAt: timeIn(object, 'created'),
    refunded: optionalWhole(object, 'amount_refunded') ?? 0,
    reportedAt,
  }
}

const refundStatuses = {
  succeeded: 'succeeded',
  failed: 'failed',
  canceled: 'canceled',
  pending: 'pending',
  requires_action: 'pending',
  // A refund may have none yet.
  '': 'pending',
} as const

export function readRefund(object: Shape, reportedAt: number | undefined, before?: string): RefundFact {
  return {
    kind: 'refund',
    refundRef: textIn(object, 'id'),
    chargeRef: idIn(object, 'charge'),
    paymentRef: idIn(object, 'payment_intent'),
    amount: wholeIn(object, 'amount'),
    currency: textIn(object, 'currency'),
    createdAt: timeIn(object, 'created'),
    status: wordIn(object, 'status', refundStatuses),
    hadSucceeded: before === 'succeeded',
    reportedAt,
  }
}

const inquiry = { stage: 'inquiry', status: 'open' } as const
const chargeback = { stage: 'chargeback', status: 'open' } as const

const disputeStages = {
  warning_needs_response: inquiry,
  warning_under_review: inquiry,
  warning_closed: { stage: 'inquiry_closed', status: 'closed' },
  needs_response: chargeback,
  under_review: chargeback,
  appeal_needs_response: chargeback,
  appeal_under_review: chargeback,
  won: { stage: 'chargeback', status: 'won' },
  lost: { stage: 'chargeback', status: 'lost' },
  // It never came to be.
  prevented: undefined,
} as const

export function readDispute(
  object: Shape,
  reportedAt: number | undefined,
  { before, opening = false }: { before?: string | undefined; opening?: boolean } = {},
): DisputeFact | undefined {
  const stage = wordIn<Pick<DisputeFact, 'stage' | 'status'> | undefined>(object, 'status', disputeStages)
  if (!stage) return undefined
  return {
    kind: 'dispute',
    disputeRef: textIn(object, 'id'),
    chargeRef: idIn(object, 'charge'),
    paymentRef: idIn(object, 'payment_intent'),
    amount: wholeIn(object, 'amount'),
    currency: textIn(object, 'currency'),
    openedAt: timeIn(object, 'created'),
    ...stage,
    wasInquiry: before?.startsWith('warning_') ?? false,
    opening,
    reportedAt,
  }
}

const billingReasons = {
  subscription_create: 'first',
  subscription_cycle: 'cycle',
  subscription_threshold: 'proration',
  subscription_update: 'proration',
  subscription: 'cycle',
  manual: 'proration',
  automatic_pending_invoice_item_invoice: 'proration',
  quote_accept: 'first',
  upcoming: 'cycle',
} as const

/** What an invoice says of its subscription; undefined for one of none. */
function subscriptionOf(
  invoice: Shape,
): { subscriptionRef: string; sessionId: string | undefined } | undefined {
  // Versions before basil have it elsewhere.
  if (invoice['parent'] === undefined) throw new NotUnderstood('parent is missing')
  const details = optionalShape(optionalShape(invoice['parent'])?.['subscription_details'])
  const subscriptionRef = details && idIn(details, 'subscription')
  return subscriptionRef === undefined ? undefined : { subscriptionRef, sessionId: sessionIdIn(details) }
}

export function readPaidInvoice(object: Shape, at: number): InvoicePaidFact | undefined {
  const subscription = subscriptionOf(object)
  if (!subscription) return undefined
  const transitions = optionalShape(object['status_transitions'])
  const paidAt = transitions && optionalWhole(transitions, 'paid_at')
  const running = runningLine(listIn(object, 'lines'))
  return {
    kind: 'invoice_paid',
    invoiceRef: textIn(object, 'id'),
    ...subscription,
    reason: wordIn(object, 'billing_reason', billingReasons),
    amount: wholeIn(object, 'amount_paid'),
    currency: textIn(object, 'currency'),
    periodEnd: running?.periodEnd,
    priceRef: running?.priceRef,
    paidAt: paidAt === undefined ? at : paidAt * 1000,
  }
}

/**
 * The line of what the subscription goes on with: the one that ends last. Credits for what it no longer runs on do not
 * count, and of two that end together one that is no proration goes first.
 */
function runningLine(lines: Shape[]): { periodEnd: number; priceRef: string | undefined } | undefined {
  const read = lines.flatMap((line) => {
    const period = optionalShape(line['period'])
    const end = period && optionalWhole(period, 'end')
    if (end === undefined || wholeIn(line, 'amount') < 0) return []
    const details = optionalShape(optionalShape(line['parent'])?.['subscription_item_details'])
    const price = optionalShape(optionalShape(line['pricing'])?.['price_details'])
    return [
      {
        periodEnd: end * 1000,
        priceRef: price && idIn(price, 'price'),
        proration: details?.['proration'] === true,
      },
    ]
  })
  return read.reduce<(typeof read)[number] | undefined>((best, line) => {
    if (!best || line.periodEnd > best.periodEnd) return line
    return line.periodEnd === best.periodEnd && best.proration && !line.proration ? line : best
  }, undefined)
}

/** Undefined for a first invoice: nothing has been sold yet that could be suspended. */
export function readFailedInvoice(object: Shape, at: number): InvoiceFailedFact | undefined {
  const subscription = subscriptionOf(object)
  if (!subscription || wordIn(object, 'billing_reason', billingReasons) === 'first') return undefined
  return {
    kind: 'invoice_failed',
    invoiceRef: textIn(object, 'id'),
    ...subscription,
    attempt: Math.max(1, wholeIn(object, 'attempt_count')),
    at,
  }
}

/** Undefined where it is not paid, or was paid outside of the processor. */
export function readInvoicePayment(object: Shape): InvoicePaymentFact | undefined {
  if (!wordIn(object, 'status', { paid: true, open: false, canceled: false })) return undefined
  const payment = shapeOf(object['payment'], 'payment')
  const invoiceRef = idIn(object, 'invoice')
  const paymentRef = idIn(payment, 'payment_intent') ?? idIn(payment, 'charge')
  if (invoiceRef === undefined || paymentRef === undefined) return undefined
  return { kind: 'invoice_payment', invoiceRef, paymentRef }
}

export function readSubscription(object: Shape): SubscriptionFact | undefined {
  const ends = listIn(object, 'items').map((item) => optionalWhole(item, 'current_period_end') ?? 0)
  const end = Math.max(0, ...ends)
  return end === 0
    ? undefined
    : {
        kind: 'subscription',
        subscriptionRef: textIn(object, 'id'),
        sessionId: sessionIdIn(object),
        periodEnd: end * 1000,
      }
}

export function readEndedSubscription(object: Shape, at: number): SubscriptionEndedFact {
  const endedAt = optionalWhole(object, 'ended_at')
  return {
    kind: 'subscription_ended',
    subscriptionRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    endedAt: endedAt === undefined ? at : endedAt * 1000,
    paymentsFailed: optionalShape(object['cancellation_details'])?.['reason'] === 'payment_failed',
  }
}
