import type { PriceMode } from '@licensing/proto/closed-sets'
import type { ChargeFact, DisputeFact, Fact, InvoicePaidFact, RefundFact } from './facts.ts'

/** An event of the processor's, verified; what it says is read by `factsOf`. */
export interface VerifiedEvent {
  eventId: string
  type: string
  /** `stripe:acct_…`; undefined for the platform's own events. */
  merchant: string | undefined
  live: boolean
}

export interface CheckoutOrder {
  sessionId: string
  accountId: string
  applicationId: string
  planId: string
  externalRef: string
  merchant: string
  priceId: string
  mode: PriceMode
  amount: bigint
  currency: string
  feeMinor: bigint
  feeBps: number
  successUrl: string
  cancelUrl: string
}

/** What the processor's records say of a charge. */
export interface ChargeRecords {
  charge: ChargeFact
  refunds: RefundFact[]
  disputes: DisputeFact[]
}

export interface ListedEvent {
  eventId: string
  type: string
  body: Buffer
  createdAt: Date
}

/**
 * A payment processor. What is looked up answers undefined where the processor says that there is no such thing, and
 * rejects where it gives no answer.
 */
export interface PaymentProcessor {
  readonly name: 'stripe'
  /** A local stand-in that moves no money. */
  readonly simulated: boolean
  readonly live: boolean
  /** @throws ServiceError `bad_request` unless the signature is right and fresh */
  verify(body: Uint8Array, signature: string | undefined): VerifiedEvent
  /** Whether events of this type are of any use here. */
  understands(type: string): boolean
  factsOf(body: Uint8Array): Fact[]
  /** Opens a checkout; asked again with the same order it answers with the same one. */
  openCheckout(order: CheckoutOrder): Promise<{ checkoutRef: string; url: string }>
  /** The charge of a payment, or the charge itself. */
  findCharge(
    merchant: string,
    ref: { paymentRef?: string; chargeRef?: string },
  ): Promise<ChargeFact | undefined>
  /** All that the processor has on a charge. */
  chargeRecords(merchant: string, chargeRef: string): Promise<ChargeRecords | undefined>
  /** A paid invoice, and the payment that paid it, where there is one. */
  findInvoice(
    merchant: string,
    invoiceRef: string,
  ): Promise<{ paid: InvoicePaidFact | undefined; paymentRef: string | undefined } | undefined>
  /** The end of a subscription's running period. */
  findPeriodEnd(merchant: string, subscriptionRef: string): Promise<Date | undefined>
  /** Gives a fee back at the processor; done already, or never taken, is done. */
  refundFee(chargeRef: string, amountMinor: bigint, idempotencyKey: string): Promise<void>
  /** Events since then, oldest first; undefined where the processor keeps no list. */
  listEvents(merchant: string, since: Date): AsyncIterable<ListedEvent>
}
