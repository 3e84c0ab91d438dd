import type { PriceMode } from '@licensing/proto/closed-sets'
import type {
  ChargeFact,
  DisputeFact,
  Fact,
  InvoicePaidFact,
  InvoicePaymentFact,
  RefundFact,
  SubscriptionFact,
} from './facts.ts'

/** An event of the processor's, verified; what it says is read by `read`. */
export interface VerifiedEvent {
  eventId: string
  type: string
  /** `stripe:acct_…`; undefined for the platform's own events. */
  merchant: string | undefined
  live: boolean
}

/** What an event says: a fact, that the merchant withdrew its access, or nothing that matters. */
export type Reading = { fact: Fact } | { disconnectedAt: Date } | undefined

/** An event of a type that matters, whose shape, version or values are not known: it is kept until they are. */
export class NotUnderstood extends Error {
  override name = 'NotUnderstood'
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
  /** Months between two charges of a subscription. */
  intervalMonths: number
  feeMinor: bigint
  feeBps: number
  successUrl: string
  cancelUrl: string
}

export interface OpenedCheckout {
  checkoutRef: string
  url: string
  /** What it will charge. */
  amount: bigint
  currency: string
}

/** What the processor's records say of a charge. */
export interface ChargeRecords {
  charge: ChargeFact
  refunds: RefundFact[]
  disputes: DisputeFact[]
}

/** A fee as the processor has it. */
export interface ChargedFee {
  feeRef: string
  /** What has not been given back of it. */
  leftMinor: bigint
  /** The ledger's entries for which it was given back; undefined for a refund that is not this service's. */
  refunds: { entryId: string | undefined; at: Date }[]
}

export interface ListedEvent {
  eventId: string
  type: string
  /** By the processor's clock. */
  createdAt: number
  body: Buffer
}

/**
 * A payment processor. What is looked up answers undefined where the processor says that there is no such thing, and
 * rejects where it gives no answer or refuses to.
 */
export interface PaymentProcessor {
  readonly name: 'stripe'
  /** Whether money moves. */
  readonly live: boolean
  /** @throws ServiceError `bad_request` unless the signature is right and fresh */
  verify(body: Uint8Array, signature: string | undefined): VerifiedEvent
  /** Whether events of this type are of any use here. */
  understands(type: string): boolean
  /** @throws NotUnderstood */
  read(body: Uint8Array): Reading
  /** Whether the account exists and is connected to the platform. @throws ServiceError `unavailable` */
  isConnected(connectedAccount: string): Promise<boolean>
  /** The page on which the holder of an account lets the platform act for it. @throws ServiceError `unavailable` */
  consentUrl(state: string, returnUrl: string): string
  /**
   * Exchanges what that page returned with; once.
   *
   * @throws ServiceError `bad_request` where the processor refuses it, `unavailable`
   */
  redeemConsent(code: string): Promise<{ connectedAccount: string; live: boolean }>
  /**
   * Opens a checkout; asked again with the same order it answers with the same one.
   *
   * @param feeFor the fee, where the processor charges another amount than was ordered
   */
  openCheckout(order: CheckoutOrder, feeFor: (amount: bigint) => bigint): Promise<OpenedCheckout>
  /** The charge of a payment, or the charge itself. */
  findCharge(merchant: string, paymentRef: string): Promise<ChargeFact | undefined>
  /** All that the processor has on a charge. */
  chargeRecords(merchant: string, chargeRef: string): Promise<ChargeRecords | undefined>
  /** A paid invoice, and the payment that paid it, where there is one. */
  findInvoice(
    merchant: string,
    invoiceRef: string,
  ): Promise<(InvoicePaidFact | InvoicePaymentFact)[] | undefined>
  findSubscription(merchant: string, subscriptionRef: string): Promise<SubscriptionFact | undefined>
  /** The platform's fee of a charge; it may come later than the charge. */
  findFee(chargeRef: string): Promise<ChargedFee | undefined>
  /**
   * Gives a fee back, or part of it. No request is repeated: whether one whose answer was lost took effect, `findFee` says.
   *
   * @param entryId the ledger's entry, which the fee's refunds name then
   */
  refundFee(feeRef: string, amountMinor: bigint, entryId: string): Promise<void>
  /** Pages of the events since then, newest first. */
  listEvents(merchant: string, since: Date): AsyncIterable<ListedEvent[]>
  /** What the platform's webhook endpoint needs. */
  webhookNeeds(): { apiVersion: string; eventTypes: string[] }
  /** Creates the platform's webhook endpoint. @returns its id and its secret, which is shown here alone */
  createWebhook(url: string): Promise<{ id: string; secret: string }>
}
