import type { DisputeStatus, RefundStatus } from '@licensing/proto/closed-sets'

/** What a payment processor tells, in our words. Ids that end in `Ref` are the processor's. */
export type Fact =
  | CheckoutFact
  | ChargeFact
  | RefundFact
  | DisputeFact
  | InvoicePaidFact
  | InvoiceFailedFact
  | SubscriptionEndedFact
  | DisconnectedFact

export interface CheckoutFact {
  kind: 'checkout'
  checkoutRef: string
  /** Our session, where the processor repeats what it was given. */
  sessionId: string | undefined
  state: 'unpaid' | 'expired' | 'failed' | 'paid'
  amount: bigint | undefined
  currency: string | undefined
  paymentRef: string | undefined
  subscriptionRef: string | undefined
  invoiceRef: string | undefined
  at: Date
}

export interface ChargeFact {
  kind: 'charge'
  chargeRef: string
  paymentRef: string | undefined
  /** Our session, where the payment repeats what it was given. */
  sessionId: string | undefined
  amount: bigint
  currency: string
  chargedAt: Date
  /** All that was refunded so far, pending refunds included. */
  refunded: bigint
  toldAt: Date
}

export interface RefundFact {
  kind: 'refund'
  refundRef: string
  chargeRef: string | undefined
  paymentRef: string | undefined
  amount: bigint
  currency: string
  createdAt: Date
  status: RefundStatus
  /** It is no longer succeeded, but had been. */
  hadSucceeded: boolean
  /** When it came to this status; undefined where the processor's records say so, which do not tell when. */
  toldAt: Date | undefined
}

export interface DisputeFact {
  kind: 'dispute'
  disputeRef: string
  chargeRef: string | undefined
  paymentRef: string | undefined
  amount: bigint
  currency: string
  openedAt: Date
  stage: 'inquiry' | 'inquiry_closed' | 'chargeback'
  status: DisputeStatus
  /** A chargeback that began as an inquiry. */
  wasInquiry: boolean
  /** It tells of the dispute's opening, so that nothing came before. */
  opening: boolean
  /** When it came to this stage; undefined where the processor's records say so, which do not tell when. */
  toldAt: Date | undefined
}

export interface InvoicePaidFact {
  kind: 'invoice_paid'
  invoiceRef: string
  subscriptionRef: string
  sessionId: string | undefined
  /** The subscription's first invoice, which its checkout pays. */
  first: boolean
  amount: bigint
  currency: string
  periodEnd: Date | undefined
  paidAt: Date
}

export interface InvoiceFailedFact {
  kind: 'invoice_failed'
  invoiceRef: string
  subscriptionRef: string
  sessionId: string | undefined
  /** Counts up with each automatic attempt; one made by hand repeats the count. */
  attempt: number
  at: Date
}

export interface SubscriptionEndedFact {
  kind: 'subscription_ended'
  subscriptionRef: string
  sessionId: string | undefined
  endedAt: Date
  /** It ended because payments failed, so their failures have been told too, or soon are. */
  paymentsFailed: boolean
}

export interface DisconnectedFact {
  kind: 'disconnected'
  at: Date
}
