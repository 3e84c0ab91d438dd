import type {
  ChargeFact,
  CheckoutFact,
  DisputeFact,
  InvoiceFailedFact,
  InvoicePaidFact,
  InvoicePaymentFact,
  ItemLine,
  RefundFact,
  SubscriptionItem,
} from '../facts.ts'
import { NotUnderstood } from '../processor.ts'
import {
  hasMore,
  idIn,
  listIn,
  optionalShape,
  optionalTime,
  optionalWhole,
  shapeOf,
  textIn,
  timeIn,
  wholeIn,
  wordIn,
} from './shape.ts'
import type { Shape } from './shape.ts'

// Converts Stripe's objects into facts, from events and from API calls.

/** Metadata that billing adds to checkouts, payments, subscriptions and fee refunds. */
export const metadataKeys = {
  sessionId: 'licensing_session_id',
  applicationId: 'application_id',
  planId: 'plan_id',
  amount: 'licensing_amount',
  currency: 'licensing_currency',
  intervalCount: 'licensing_recurring_interval_count',
  feeEntryId: 'licensing_fee_entry_id',
} as const

export function sessionIdIn(object: Shape | undefined): string | undefined {
  const metadata = optionalShape(object?.['metadata'])
  return metadata && idIn(metadata, metadataKeys.sessionId)
}

export function readCheckout(object: Shape, state: CheckoutFact['state'], at: number): CheckoutFact {
  return {
    kind: 'checkout',
    checkoutRef: textIn(object, 'id'),
    sessionId: sessionIdIn(object),
    state,
    amount: optionalWhole(object, 'amount_total'),
    currency: idIn(object, 'currency'),
    paymentRef: idIn(object, 'payment_intent'),
    subscriptionRef: idIn(object, 'subscription'),
    invoiceRef: idIn(object, 'invoice'),
    at,
  }
}

/** `unpaid`: a delayed method, whose outcome is reported later. */
export const checkoutPaid = { paid: 'paid', no_payment_required: 'paid', unpaid: 'unpaid' } as const

/**
 * @returns undefined for a charge that did not succeed: a payment can have failed charges besides the one that paid it
 */
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
  // A new refund may have no status.
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
  // A prevented dispute was never opened.
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

/** @returns undefined if the invoice is not for a subscription */
function subscriptionOf(
  invoice: Shape,
): { subscriptionRef: string; sessionId: string | undefined } | undefined {
  // API versions before basil have it in another field.
  if (invoice['parent'] === undefined) throw new NotUnderstood('parent is missing')
  const details = optionalShape(optionalShape(invoice['parent'])?.['subscription_details'])
  const subscriptionRef = details && idIn(details, 'subscription')
  return subscriptionRef === undefined ? undefined : { subscriptionRef, sessionId: sessionIdIn(details) }
}

/** @param items the current items of the subscription */
export function readPaidInvoice(
  object: Shape,
  at: number,
  items?: SubscriptionItem[],
): InvoicePaidFact | undefined {
  const subscription = subscriptionOf(object)
  if (!subscription) return undefined
  const transitions = optionalShape(object['status_transitions'])
  const paidAt = transitions && optionalTime(transitions, 'paid_at')
  return {
    kind: 'invoice_paid',
    invoiceRef: textIn(object, 'id'),
    ...subscription,
    reason: wordIn(object, 'billing_reason', billingReasons),
    amount: wholeIn(object, 'amount_paid'),
    currency: textIn(object, 'currency'),
    lines: hasMore(object, 'lines') ? undefined : itemLines(listIn(object, 'lines')),
    items,
    paidAt: paidAt ?? at,
  }
}

type ReadLine = ItemLine & { begins: number; isProration: boolean }

/**
 * The line of an invoice for each item of the subscription. Lines of invoice items are left out: they belong to no item of
 * the subscription. Credits are left out: they are for a time that the item no longer pays for.
 */
function itemLines(lines: Shape[]): ItemLine[] {
  const read = lines.flatMap((line): ReadLine[] => {
    const details = optionalShape(optionalShape(line['parent'])?.['subscription_item_details'])
    if (!details || isCredit(line, details)) return []
    const period = shapeOf(line['period'], 'period')
    const price = optionalShape(optionalShape(line['pricing'])?.['price_details'])
    return [
      {
        itemRef: textIn(details, 'subscription_item'),
        priceRef: price && idIn(price, 'price'),
        periodEnd: timeIn(period, 'end'),
        begins: timeIn(period, 'start'),
        isProration: details['proration'] === true,
      },
    ]
  })
  return [...Map.groupBy(read, (line) => line.itemRef).values()].map((own) => {
    const { itemRef, priceRef, periodEnd } = own.reduce((best, line) =>
      supersedes(line, best) ? line : best,
    )
    return { itemRef, priceRef, periodEnd }
  })
}

function isCredit(line: Shape, details: Shape): boolean {
  const credited = optionalShape(details['proration_details'])?.['credited_items']
  return wholeIn(line, 'amount') < 0 || optionalShape(credited) !== undefined
}

/**
 * Whether an item continues with this line rather than the other: with the later period, with a regular line rather
 * than a proration, with the later start.
 */
function supersedes(line: ReadLine, other: ReadLine): boolean {
  if (line.periodEnd !== other.periodEnd) return line.periodEnd > other.periodEnd
  if (line.isProration !== other.isProration) return other.isProration
  return line.begins > other.begins
}

/** @returns undefined for a first invoice: nothing was sold yet */
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

/** @returns undefined if it is not paid, or was paid outside of Stripe */
export function readInvoicePayment(object: Shape): InvoicePaymentFact | undefined {
  if (!wordIn(object, 'status', { paid: true, open: false, canceled: false })) return undefined
  const payment = shapeOf(object['payment'], 'payment')
  const invoiceRef = idIn(object, 'invoice')
  const paymentRef = idIn(payment, 'payment_intent') ?? idIn(payment, 'charge')
  if (invoiceRef === undefined || paymentRef === undefined) return undefined
  return { kind: 'invoice_payment', invoiceRef, paymentRef }
}
