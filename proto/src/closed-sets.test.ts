import { expect, test } from 'vitest'
import { closedSets, isMember, readMember, UnknownMember } from './closed-sets.ts'
import type { SetName } from './closed-sets.ts'

// The words of the API, as the guides and the OpenAPI document have them, written out a second time.
const written: Record<SetName, string> = {
  quota:
    'applications api_keys plans entitlement_defs webhook_endpoints activations hosts deactivations idempotency_bytes trials_per_day members',
  moveState: 'leaving moved returning forgotten arriving arrived',
  scope: 'admin read revoke issue',
  memberRole: 'owner admin support viewer',
  entitlementKind: 'feature limit',
  planStatus: 'active retired',
  planVerb: 'archive restore',
  licenceStatus: 'active suspended revoked expired retired downgraded',
  suspensionReason: 'manual plan_archived payment_failed dispute_inquiry',
  licenceVerb: 'suspend reactivate revoke retire',
  historyType:
    'issued imported created plan_changed suspended reactivated revoked retired expired downgraded renewed migrated changed activation_freed trial_started key_rotated',
  entitlementSource: 'snapshot override default',
  activationReplacement: 'oldest',
  importResult: 'created existing failed',
  searchMatch: 'id key legacy_key activation_id charge_ref session_id sale_id host external_ref',
  purchaseEffect:
    'paid renewed payment_failed inquiry_opened inquiry_closed partially_refunded refunded charged_back cancelled renewal_stopped renewal_resumed order_corrected',
  processor: 'stripe',
  priceMode: 'payment subscription',
  checkoutStatus: 'open provisioned provision_failed expired canceled',
  saleStatus: 'provisioned provision_failed',
  saleFactKind: 'renewal failure refund chargeback cancellation',
  refundKind: 'full_refund partial_refund chargeback',
  refundStatus: 'pending succeeded failed canceled',
  disputeStatus: 'open won lost closed',
  feeKind: 'charge credit reversal',
  endpointStatus: 'enabled disabled',
  disabledReason: 'deleted retries_exhausted',
  webhookSignature: 'default standard',
  deliveryStatus: 'pending delivered failed',
  alertKind:
    'endpoint_failing endpoint_disabling endpoint_disabled refund_reversed processor_event_parked processor_events_missed processor_disconnected renewal_without_licence',
}

test('each set has the words of the interface, the decisions and the additions', () => {
  const sets = Object.entries(closedSets).map(([name, words]) => [name, words.join(' ')])
  expect(Object.fromEntries(sets)).toEqual(written)
})

test('a word of the set is returned unchanged', () => {
  for (const set of Object.keys(closedSets) as SetName[]) {
    for (const word of closedSets[set]) expect(readMember(set, word)).toBe(word)
  }
})

test.each(['frozen', '', 'Active', 'active ', 'toString', '0'])(
  '%j is refused as a licence status; the error lists the known words',
  (word) => {
    expect(isMember('licenceStatus', word)).toBe(false)
    const read = () => readMember('licenceStatus', word)
    expect(read).toThrow(UnknownMember)
    expect(read).toThrow(`${JSON.stringify(word)} is no licenceStatus: known are active, suspended,`)
  },
)

test('an error quotes only the first 64 characters of a long word', () => {
  expect(() => readMember('scope', 'x'.repeat(1_000_000))).toThrow(/^"x{64}" is no scope/)
})
