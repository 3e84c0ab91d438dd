import type { PriceMode } from '@licensing/proto/closed-sets'
import type { ChargeFact, DisputeFact, Fact, RefundFact } from './facts.ts'

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

/** A checkout session that is to be opened. */
export interface CheckoutOrder {
  id: string
  application_id: string
  plan_id: string
  external_ref: string
  merchant: string
  price_id: string
  mode: PriceMode
  amount: bigint
  currency: string
  /** Months between two charges of a subscription. */
  period_months: number | null
  fee_minor: bigint
  fee_bps: number
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
