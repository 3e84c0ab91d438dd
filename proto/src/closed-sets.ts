/**
 * All closed sets of words that services exchange or store. No other file lists them: types, REST schemas, the OpenAPI
 * document and the SDK are derived from here, and a test compares the checks in migrations with these sets.
 */
export const closedSets = {
  // Resources whose number per account is limited; the limits are in `quotas.ts`.
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
    'members',
  ],
  // Accounts that move between cells; a service has a row for each.
  moveState: ['leaving', 'moved', 'returning', 'forgotten', 'arriving', 'arrived'],

  // Catalog.
  scope: ['admin', 'read', 'revoke', 'issue'],
  memberRole: ['owner', 'admin', 'support', 'viewer'],
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
  // The origin of a value in a token.
  entitlementSource: ['snapshot', 'override', 'default'],
  // The activation that is freed for a new one.
  activationReplacement: ['oldest'],
  importResult: ['created', 'existing', 'failed'],
  // The field by which a search found a licence. If several fields match, the first in this order counts.
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

  // Effects that billing reports to licensing about a purchase, which is a checkout session or a sale event.
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
    'cancelled',
    // Its subscription will end with the paid period: the processor will not charge it again.
    'renewal_stopped',
    // Its subscription will be charged again after all.
    'renewal_resumed',
    // Nothing new happened: the time of its first charge was corrected.
    'order_corrected',
  ],

  // Billing.
  processor: ['stripe'],
  priceMode: ['payment', 'subscription'],
  checkoutStatus: ['open', 'provisioned', 'provision_failed', 'expired', 'canceled'],
  saleStatus: ['provisioned', 'provision_failed'],
  // Facts that another shop reports about its sale. If several have the same time, they are sorted in this order of kinds.
  saleFactKind: ['renewal', 'failure', 'refund', 'chargeback', 'cancellation'],
  // A refund that completes the amount of its charge, any other refund, or a chargeback.
  refundKind: ['full_refund', 'partial_refund', 'chargeback'],
  refundStatus: ['pending', 'succeeded', 'failed', 'canceled'],
  disputeStatus: ['open', 'won', 'lost', 'closed'],
  feeKind: ['charge', 'credit', 'reversal'],

  // Notifier.
  endpointStatus: ['enabled', 'disabled'],
  disabledReason: ['deleted', 'retries_exhausted'],
  webhookSignature: ['default', 'standard'],
  deliveryStatus: ['pending', 'delivered', 'failed'],
  alertKind: [
    'endpoint_failing',
    'endpoint_disabling',
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
export type MoveState = Member<'moveState'>
export type Scope = Member<'scope'>
export type MemberRole = Member<'memberRole'>
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
export type SaleFactKind = Member<'saleFactKind'>
export type RefundKind = Member<'refundKind'>
export type RefundStatus = Member<'refundStatus'>
export type DisputeStatus = Member<'disputeStatus'>
export type FeeKind = Member<'feeKind'>
export type EndpointStatus = Member<'endpointStatus'>
export type DisabledReason = Member<'disabledReason'>
export type WebhookSignature = Member<'webhookSignature'>
export type DeliveryStatus = Member<'deliveryStatus'>
export type AlertKind = Member<'alertKind'>

/** A peer or a database sent a word that is not in the closed set. Not for the input of callers of the API. */
export class UnknownMember extends Error {
  override name = 'UnknownMember'
}

export function isMember<Name extends SetName>(set: Name, word: string): word is Member<Name> {
  const words: readonly string[] = closedSets[set]
  return words.includes(word)
}

/**
 * Checks that a word from a peer or a database is a member of its set, and returns it.
 *
 * @throws {UnknownMember} with the set and the word. If a call fails with it, the error is logged in full and the caller
 *   gets `internal`
 * @example const status = readMember('licenceStatus', licence.status)
 */
export function readMember<Name extends SetName>(set: Name, word: string): Member<Name> {
  if (isMember(set, word)) return word
  throw new UnknownMember(
    `${JSON.stringify(word.slice(0, 64))} is no ${set}: known are ${closedSets[set].join(', ')}`,
  )
}
