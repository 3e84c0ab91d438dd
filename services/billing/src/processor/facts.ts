import type { DisputeStatus, RefundStatus } from '@licensing/proto/closed-sets'

/**
 * A report of a payment processor as plain JSON, in a form that is the same for all processors. Ids that end in `Ref` are the
 * processor's, amounts are in minor units, times are milliseconds of the processor's clock.
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
  | EndScheduledFact
  | SubscriptionEndedFact

/** Ids in a fact. Each of them leads to the purchase that the fact belongs to. */
export interface Links {
  /** The id of the checkout session, if the processor repeats the metadata that it was given. */
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
  /** Whether it was paid after it had been completed, by a delayed method. */
  wasDelayed?: boolean | undefined
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
  /** The total of all refunds so far, including pending refunds. */
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
  /** Whether it had succeeded before it got its present status. */
  hadSucceeded: boolean
  /** When it got this status; undefined in the processor's records, which do not say when. */
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
  /** Whether it is a chargeback that began as an inquiry. */
  wasInquiry: boolean
  /** Whether it reports the opening of the dispute, so that no earlier stage is missing. */
  opening: boolean
  /** When it reached this stage; undefined in the processor's records, which do not say when. */
  reportedAt: number | undefined
}

export interface InvoicePaidFact extends Links {
  kind: 'invoice_paid'
  invoiceRef: string
  subscriptionRef: string
  /** `first`: the checkout pays it; `cycle`: a renewal; `proration`: a change within a period. */
  reason: 'first' | 'cycle' | 'proration'
  /** The place of its cycle among those of the subscription, if the ends of the periods do not say it. */
  cycle?: number | undefined
  amount: number
  currency: string
  /**
   * At most one for each item of the subscription; undefined if the event does not contain all lines of the invoice.
   */
  lines: ItemLine[] | undefined
  /** The subscription's items, if the processor was asked for the invoice; events do not contain them. */
  items?: SubscriptionItem[] | undefined
  paidAt: number
}

/** Until when an invoice pays for an item of its subscription, and at which price. */
export interface ItemLine {
  itemRef: string
  priceRef: string | undefined
  periodEnd: number
}

export interface SubscriptionItem extends ItemLine {
  createdAt: number
}

/** A payment that paid an invoice, or a part of it. */
export interface InvoicePaymentFact extends Links {
  kind: 'invoice_payment'
  invoiceRef: string
  paymentRef: string
}

export interface InvoiceFailedFact extends Links {
  kind: 'invoice_failed'
  invoiceRef: string
  /** The id of the failure, if the seller does not name its invoice. */
  failureRef?: string
  subscriptionRef: string
  /** It increases with each automatic attempt. A manual attempt repeats the count. */
  attempt: number
  at: number
}

/** A subscription in the processor's records. */
export interface SubscriptionFact extends Links {
  kind: 'subscription'
  subscriptionRef: string
  items: SubscriptionItem[]
  /** When it is set to end; null if it continues. */
  endsAt: number | null
  /** When it was set to end. */
  endSetAt: number | null
}

/** The end of a subscription was set, changed or removed. */
export interface EndScheduledFact extends Links {
  kind: 'end_scheduled'
  subscriptionRef: string
  /** Null if it continues. */
  endsAt: number | null
  endsAtBefore: number | null
  at: number
}

export interface SubscriptionEndedFact extends Links {
  kind: 'subscription_ended'
  subscriptionRef: string
  endedAt: number
  /** When the purchase ends, whatever was paid; undefined if it ends at `endedAt`. */
  endsOn?: number | undefined
}

/** The processor's ids in a fact, which lead to its purchase. */
export function refsOf(fact: Links): string[] {
  const { checkoutRef, paymentRef, chargeRef, invoiceRef, subscriptionRef } = fact
  return [checkoutRef, paymentRef, chargeRef, invoiceRef, subscriptionRef].filter((ref) => ref !== undefined)
}
