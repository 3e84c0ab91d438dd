/**
 * Every closed set of words that crosses the wire or stands in a database: the only place that lists one. Types, REST
 * schemas, the OpenAPI document and the SDK come from here; what a migration writes down is compared with it by a test.
 */
export const closedSets = {
  // What an account may have only so many of: `quotas.ts` says how many.
  quota: [
    'applications',
    'api_keys',
    'plans',
    'entitlement_defs',
    'webhook_endpoints',
    'activations',
    'hosts',
    'deactivations',
    'idempotency_bytes',
    'trials_per_day',
  ],

  // Catalog.
  scope: ['admin', 'read', 'revoke', 'issue'],
  entitlementKind: ['feature', 'limit'],
  planStatus: ['active', 'retired'],
  planVerb: ['archive', 'restore'],

  // Licensing.
  licenceStatus: ['active', 'suspended', 'revoked', 'expired', 'retired', 'downgraded'],
  suspensionReason: ['manual', 'plan_archived', 'payment_failed', 'dispute_inquiry'],
  licenceVerb: ['suspend', 'reactivate', 'revoke', 'retire'],
  historyType: [
    'issued',
    'imported',
    'created',
    'plan_changed',
    'suspended',
    'reactivated',
    'revoked',
    'retired',
    'expired',
    'downgraded',
    'renewed',
    'migrated',
    'changed',
    'activation_freed',
    'trial_started',
    'key_rotated',
  ],
  // Where the value that a token carries comes from.
  entitlementSource: ['snapshot', 'override', 'default'],
  // Which activation makes place for a new one.
  activationReplacement: ['oldest'],
  importResult: ['created', 'existing', 'failed'],
  // What a search finds a licence by; of several the first counts.
  searchMatch: [
    'id',
    'key',
    'legacy_key',
    'activation_id',
    'charge_ref',
    'session_id',
    'sale_id',
    'host',
    'external_ref',
  ],

  // What billing reports to licensing about a purchase: a checkout session or a sale event.
  purchaseEffect: [
    // Its first payment, which provisions a licence. It comes before all other effects of the purchase.
    'paid',
    // Another invoice of its subscription was paid.
    'renewed',
    // Payments of its subscription failed as often as is tolerated.
    'payment_failed',
    'inquiry_opened',
    'inquiry_closed',
    // Part of the payment of the current period was refunded.
    'partially_refunded',
    // All of the payment of the current period was refunded.
    'refunded',
    'charged_back',
    // Its subscription has ended.
    'canceled',
    // Its subscription will end with the paid period: the processor will not charge it again.
    'renewal_stopped',
    // That was undone.
    'renewal_resumed',
    // Nothing new happened: the time of its first charge was corrected.
    'order_corrected',
  ],

  // Billing.
  processor: ['stripe'],
  priceMode: ['payment', 'subscription'],
  checkoutStatus: ['open', 'provisioned', 'provision_failed', 'expired', 'canceled'],
  saleStatus: ['provisioned', 'provision_failed'],
  // Whether a row of the refunds is a refund that completes the amount of its charge, another refund, or a chargeback.
  refundLane: ['full_refund', 'partial_refund', 'chargeback'],
  refundStatus: ['pending', 'succeeded', 'failed', 'canceled'],
  disputeStatus: ['open', 'won', 'lost', 'closed'],
  feeKind: ['charge', 'credit', 'reversal'],

  // Notifier.
  endpointStatus: ['enabled', 'disabled'],
  disabledReason: ['deleted', 'retries_exhausted'],
  deliveryStatus: ['pending', 'delivered', 'failed'],
  alertKind: [
    'endpoint_failing',
    'endpoint_disabled',
    'refund_reversed',
    'processor_event_parked',
    'processor_events_missed',
    'processor_disconnected',
    'renewal_without_licence',
  ],
} as const satisfies Record<string, readonly [string, ...string[]]>

export type SetName = keyof typeof closedSets

/** A word of a closed set. */
export type Member<Name extends SetName> = (typeof closedSets)[Name][number]

export type Quota = Member<'quota'>
export type Scope = Member<'scope'>
export type EntitlementKind = Member<'entitlementKind'>
export type PlanStatus = Member<'planStatus'>
export type PlanVerb = Member<'planVerb'>
export type LicenceStatus = Member<'licenceStatus'>
export type SuspensionReason = Member<'suspensionReason'>
export type LicenceVerb = Member<'licenceVerb'>
export type HistoryType = Member<'historyType'>
export type EntitlementSource = Member<'entitlementSource'>
export type SearchMatch = Member<'searchMatch'>
export type ImportOutcome = Member<'importResult'>
export type PurchaseEffectKind = Member<'purchaseEffect'>
export type PriceMode = Member<'priceMode'>
export type CheckoutStatus = Member<'checkoutStatus'>
export type SaleStatus = Member<'saleStatus'>
export type RefundLane = Member<'refundLane'>
export type RefundStatus = Member<'refundStatus'>
export type DisputeStatus = Member<'disputeStatus'>
export type FeeKind = Member<'feeKind'>
export type EndpointStatus = Member<'endpointStatus'>
export type DisabledReason = Member<'disabledReason'>
export type DeliveryStatus = Member<'deliveryStatus'>
export type AlertKind = Member<'alertKind'>

/** A peer or a database says a word that its closed set does not have. Never for what a caller may get wrong. */
export class UnknownMember extends Error {
  override name = 'UnknownMember'
}

export function isMember<Name extends SetName>(set: Name, word: string): word is Member<Name> {
  const words: readonly string[] = closedSets[set]
  return words.includes(word)
}

/**
 * A word from a peer or a database as a member of its set.
 *
 * @throws {UnknownMember} naming set and word; a call that it ends is logged in full and answered with `internal`
 * @example const status = readMember('licenceStatus', licence.status)
 */
export function readMember<Name extends SetName>(set: Name, word: string): Member<Name> {
  if (isMember(set, word)) return word
  throw new UnknownMember(
    `${JSON.stringify(word.slice(0, 64))} is no ${set}: known are ${closedSets[set].join(', ')}`,
  )
}
