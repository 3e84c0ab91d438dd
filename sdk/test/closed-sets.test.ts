import { describe, expect, expectTypeOf, it } from 'vitest'
import type {
  HistoryType,
  LicenceStatus,
  Member,
  RefundLane,
  SuspensionReason,
} from '../../proto/src/closed-sets.ts'
import { webhookEventTypes } from '../../proto/src/webhook-events.ts'
import type { Schemas } from '../src/backend.ts'
import type { WebhookEventType, WebhookObjects } from '../src/webhooks.ts'

// The package cannot import the services' own lists: it is published alone.
describe('the types that the package is published with', () => {
  it('name the same statuses, reasons and kinds as the services', () => {
    expectTypeOf<Schemas['Licence']['status']>().toEqualTypeOf<LicenceStatus>()
    expectTypeOf<NonNullable<Schemas['Licence']['status_reason']>>().toEqualTypeOf<SuspensionReason>()
    expectTypeOf<Schemas['LicenceHistoryEntry']['type']>().toEqualTypeOf<HistoryType>()
    expectTypeOf<Schemas['Plan']['status']>().toEqualTypeOf<Member<'planStatus'>>()
    expectTypeOf<Schemas['ApiKey']['scopes'][number]>().toEqualTypeOf<Member<'scope'>>()
    expectTypeOf<Schemas['EntitlementDefinition']['kind']>().toEqualTypeOf<Member<'entitlementKind'>>()
    expectTypeOf<Schemas['CheckoutSession']['status']>().toEqualTypeOf<Member<'checkoutStatus'>>()
    expectTypeOf<Schemas['SaleEvent']['status']>().toEqualTypeOf<Member<'saleStatus'>>()
    expectTypeOf<Schemas['Refund']['lane']>().toEqualTypeOf<RefundLane>()
    expectTypeOf<Schemas['Refund']['status']>().toEqualTypeOf<Member<'refundStatus' | 'disputeStatus'>>()
    expectTypeOf<Schemas['Fee']['kind']>().toEqualTypeOf<Member<'feeKind'>>()
    expectTypeOf<Schemas['WebhookEndpoint']['status']>().toEqualTypeOf<Member<'endpointStatus'>>()
    expectTypeOf<Schemas['WebhookDelivery']['status']>().toEqualTypeOf<Member<'deliveryStatus'>>()
  })

  it('name what webhooks carry', () => {
    expectTypeOf<WebhookObjects['licence.suspended']['status']>().toEqualTypeOf<LicenceStatus>()
    expectTypeOf<
      NonNullable<WebhookObjects['licence.suspended']['reason']>
    >().toEqualTypeOf<SuspensionReason>()
    expectTypeOf<WebhookObjects['refund.processed']['lane']>().toEqualTypeOf<RefundLane>()
    const types: Record<WebhookEventType, true> = {
      'licence.created': true,
      'licence.plan_changed': true,
      'licence.suspended': true,
      'licence.reactivated': true,
      'licence.revoked': true,
      'licence.expired': true,
      'licence.retired': true,
      'licence.downgraded': true,
      'payment.succeeded': true,
      'payment.provision_failed': true,
      'refund.processed': true,
      'spend_cap.reached': true,
      'webhook.test': true,
    }
    expect(Object.keys(types).sort()).toEqual(webhookEventTypes.toSorted())
  })
})
