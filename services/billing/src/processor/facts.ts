import type { DisputeStatus, RefundStatus } from '@licensing/proto/closed-sets'

/**
 * What a payment processor reports, in our words, as it is kept: plain JSON. Ids that end in `Ref` are the processor's,
 * amounts are minor units, times are milliseconds of its clock.
 */
export type Fact =
  | CheckoutFact
  | ChargeFact
  | RefundFact
  | DisputeFact
  | InvoicePaidFact
  | InvoicePaymentFact
  | InvoiceFailedFact
  | SubscriptionFact
  | SubscriptionEndedFact

/** Where a fact belongs: any of these that it names leads to its purchase. */
export interface Links {
  /** Our session, where the processor repeats what it was given. */
  sessionId?: string | undefined
  checkoutRef?: string | undefined
  paymentRef?: string | undefined
  chargeRef?: string | undefined
  invoiceRef?: string | undefined
  subscriptionRef?: string | undefined
}

export interface CheckoutFact extends Links {
  kind: 'checkout'
  checkoutRef: string
  state: 'unpaid' | 'expired' | 'failed' | 'paid'
  amount: number | undefined
  currency: string | undefined
  at: number
}

export interface ChargeFact extends Links {
  kind: 'charge'
  chargeRef: string
  amount: number
  currency: string
  chargedAt: number
  /** All that was refunded so far, pending refunds included. */
  refunded: number
  reportedAt: number
}

export interface RefundFact extends Links {
  kind: 'refund'
  refundRef: string
  amount: number
  currency: string
  createdAt: number
  status: RefundStatus
  /** It is no longer succeeded, but had been. */
  hadSucceeded: boolean
  /** When it came to this status; undefined where the processor's records say so, which do not say when. */
  reportedAt: number | undefined
}

export interface DisputeFact extends Links {
  kind: 'dispute'
  disputeRef: string
  amount: number
  currency: string
  openedAt: number
  stage: 'inquiry' | 'inquiry_closed' | 'chargeback'
  status: DisputeStatus
  /** A chargeback that began as an inquiry. */
  wasInquiry: boolean
  /** It reports the dispute's opening, so that nothing came before. */
  opening: boolean
  /** When it came to this stage; undefined where the processor's records say so, which do not say when. */
  reportedAt: number | undefined
}

export interface InvoicePaidFact extends Links {
  kind: 'invoice_paid'
  invoiceRef: string
  subscriptionRef: string
  /** `first`: the one that the checkout pays; `cycle`: a renewal; `proration`: a change within a period. */
  reason: 'first' | 'cycle' | 'proration'
  amount: number
  currency: string
  /** At most one of each item of the subscription; undefined where the event does not hold all of the invoice's lines. */
  lines: ItemLine[] | undefined
  /** The subscription's items when the processor was asked for the invoice; an event does not say them. */
  items?: SubscriptionItem[] | undefined
  paidAt: number
}

/** How far an invoice pays an item of its subscription, and at which price. */
export interface ItemLine {
  itemRef: string
  priceRef: string | undefined
  periodEnd: number
}

export interface SubscriptionItem extends ItemLine {
  createdAt: number
}

/** Which payment paid an invoice. */
export interface InvoicePaymentFact extends Links {
  kind: 'invoice_payment'
  invoiceRef: string
  paymentRef: string
}

export interface InvoiceFailedFact extends Links {
  kind: 'invoice_failed'
  invoiceRef: string
  subscriptionRef: string
  /** Counts up with each automatic attempt; one made by hand repeats the count. */
  attempt: number
  at: number
}

/** A subscription as the processor's records have it. */
export interface SubscriptionFact extends Links {
  kind: 'subscription'
  subscriptionRef: string
  items: SubscriptionItem[]
}

export interface SubscriptionEndedFact extends Links {
  kind: 'subscription_ended'
  subscriptionRef: string
  endedAt: number
  /** It ended because payments failed, so their failures have been reported too, or soon are. */
  paymentsFailed: boolean
}

/** The processor's ids in a fact, by which it finds its purchase. */
export function refsOf(fact: Links): string[] {
  const { checkoutRef, paymentRef, chargeRef, invoiceRef, subscriptionRef } = fact
  return [checkoutRef, paymentRef, chargeRef, invoiceRef, subscriptionRef].filter((ref) => ref !== undefined)
}
