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

/** An event with a valid signature. `read` reads its content. */
export interface VerifiedEvent {
  eventId: string
  type: string
  /** `stripe:acct_…`; undefined for the platform's own events. */
  merchant: string | undefined
  live: boolean
}

/** The content of an event: a fact, a withdrawal of the platform's access, or undefined if it is not used. */
export type Reading = { fact: Fact } | { disconnectedAt: Date } | undefined

/** An event of a used type, with an unknown shape, version or value. It is kept until a version understands it. */
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
  /** The amount that the customer will pay. */
  amount: bigint
  currency: string
}

/** The processor's records of a charge. */
export interface ChargeRecords {
  charge: ChargeFact
  refunds: RefundFact[]
  disputes: DisputeFact[]
}

/** The platform's fee of a charge, in the processor's records. */
export interface ChargedFee {
  feeRef: string
  /** The part that was not refunded. */
  leftMinor: bigint
  /** Refunds of the fee by ledger entry; undefined for a refund that this service did not make. */
  refunds: { entryId: string | undefined; amountMinor: bigint; at: Date }[]
}

/** An event as the processor lists it. */
export interface ListedEvent {
  eventId: string
  type: string
  /** Milliseconds of the processor's clock. */
  createdAt: number
  body: Buffer
}

/**
 * A payment processor. A look-up returns undefined if the processor says that there is no such object, and rejects if
 * the processor does not answer or refuses.
 */
export interface PaymentProcessor {
  readonly name: 'stripe'
  /** Whether real money moves. */
  readonly live: boolean
  /** @throws ServiceError `bad_request` unless the signature is valid and recent */
  verify(body: Uint8Array, signature: string | undefined): VerifiedEvent
  /** Whether events of this type are used. */
  understands(type: string): boolean
  /** @throws NotUnderstood */
  read(body: Uint8Array): Reading
  /** Whether the account exists and is connected to the platform. @throws ServiceError `unavailable` */
  isConnected(connectedAccount: string): Promise<boolean>
  /**
   * The page on which the owner of an account lets the platform act for it.
   *
   * @throws ServiceError `unavailable`
   */
  consentUrl(state: string, returnUrl: string): string
  /**
   * Exchanges the code with which that page returned; it can be used once.
   *
   * @throws ServiceError `bad_request` if the processor refuses it, `unavailable`
   */
  redeemConsent(code: string): Promise<{ connectedAccount: string; live: boolean }>
  /**
   * Opens a checkout. The same order again returns the same checkout.
   *
   * @param feeFor the fee if the processor charges another amount than was ordered
   */
  openCheckout(order: CheckoutOrder, feeFor: (amount: bigint) => bigint): Promise<OpenedCheckout>
  /** The charge of a payment, or the charge itself. */
  findCharge(merchant: string, paymentRef: string): Promise<ChargeFact | undefined>
  /** A charge with all its refunds and disputes. */
  chargeRecords(merchant: string, chargeRef: string): Promise<ChargeRecords | undefined>
  /** A paid invoice, and the payments that paid it, if there are any. */
  findInvoice(
    merchant: string,
    invoiceRef: string,
  ): Promise<(InvoicePaidFact | InvoicePaymentFact)[] | undefined>
  findSubscription(merchant: string, subscriptionRef: string): Promise<SubscriptionFact | undefined>
  /**
   * The processor's page on which the customer of a subscription changes the card or cancels.
   *
   * @throws ServiceError `conflict` if the processor refuses, `unavailable`
   */
  openSubscriptionPage(merchant: string, subscriptionRef: string, returnUrl: string): Promise<string>
  /** The platform's fee of a charge. The processor may add it after the charge. */
  findFee(chargeRef: string): Promise<ChargedFee | undefined>
  /**
   * Refunds a fee or a part of it. A request is never repeated: if the answer is lost, `findFee` says whether it took
   * effect.
   *
   * @param entryId the ledger entry that the fee's refund names
   */
  refundFee(feeRef: string, amountMinor: bigint, entryId: string): Promise<void>
  /** Pages of the events since then, newest first. */
  listEvents(merchant: string, since: Date): AsyncIterable<ListedEvent[]>
  /** Listed events as they can be read: the processor may list them in another API version. */
  inUsedVersion(merchant: string, events: ListedEvent[]): Promise<ListedEvent[]>
  /** The settings of the platform's webhook endpoint. */
  webhookNeeds(): { apiVersion: string; eventTypes: string[] }
  /** Creates the platform's webhook endpoint. @returns its id and its secret, which is returned only here */
  createWebhook(url: string): Promise<{ id: string; secret: string }>
}
