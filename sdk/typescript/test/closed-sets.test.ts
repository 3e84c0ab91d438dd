import { describe, expect, expectTypeOf, it } from 'vitest'
import type {
  HistoryType,
  LicenceStatus,
  Member,
  RefundKind,
  SuspensionReason,
} from '../../../proto/src/closed-sets.ts'
import { webhookFields } from '../../../proto/src/webhook-events.ts'
import type { Schemas } from '../src/backend.ts'
import { webhookEventTypes } from '../src/webhooks.ts'
import type { WebhookEnvelope, WebhookEventType, WebhookObjects } from '../src/webhooks.ts'

/** The fields of a type as the compiler knows them, in the notation of `webhookFields`. */
type Fields<Type extends WebhookEventType> = Kinds<WebhookObjects[Type]> &
  (WebhookEnvelope<Type>['previous'] extends null ? unknown : { previous: 'object' })

type Kinds<Shape> = {
  [Name in keyof Shape]-?: `${KindOf<NonNullable<Shape[Name]>>}${undefined extends Shape[Name] ? '?' : ''}`
}

type KindOf<Value> = Value extends string
  ? 'string'
  : Value extends number
    ? 'number'
    : Value extends boolean
      ? 'boolean'
      : 'object'

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
    expectTypeOf<Schemas['Refund']['lane']>().toEqualTypeOf<RefundKind>()
    expectTypeOf<Schemas['Refund']['status']>().toEqualTypeOf<Member<'refundStatus' | 'disputeStatus'>>()
    expectTypeOf<Schemas['Fee']['kind']>().toEqualTypeOf<Member<'feeKind'>>()
    expectTypeOf<Schemas['WebhookEndpoint']['status']>().toEqualTypeOf<Member<'endpointStatus'>>()
    expectTypeOf<Schemas['WebhookDelivery']['status']>().toEqualTypeOf<Member<'deliveryStatus'>>()
  })

  it('name the fields of webhooks', () => {
    expectTypeOf<WebhookObjects['licence.suspended']['status']>().toEqualTypeOf<LicenceStatus>()
    expectTypeOf<
      NonNullable<WebhookObjects['licence.suspended']['reason']>
    >().toEqualTypeOf<SuspensionReason>()
    expectTypeOf<WebhookObjects['refund.processed']['lane']>().toEqualTypeOf<RefundKind>()
    const onPlan = { licence_id: 'string', plan_id: 'string', status: 'string' } as const
    const standing = { licence_id: 'string', status: 'string' } as const
    const fields: { [Type in WebhookEventType]: Fields<Type> } = {
      'licence.created': onPlan,
      'licence.plan_changed': { ...onPlan, previous: 'object' },
      'licence.suspended': { ...standing, reason: 'string?' },
      'licence.reactivated': standing,
      'licence.revoked': standing,
      'licence.expired': standing,
      'licence.retired': standing,
      'licence.downgraded': standing,
      'licence.expiring': { ...standing, expires_on: 'string' },
      'licence.entitlements_changed': standing,
      'licence.trial_started': onPlan,
      'payment.succeeded': { licence_id: 'string', amount: 'number', currency: 'string' },
      'payment.provision_failed': {
        session_id: 'string',
        plan_id: 'string',
        amount: 'number',
        currency: 'string',
        reason: 'string',
      },
      'refund.processed': {
        licence_id: 'string',
        charge_ref: 'string',
        amount: 'number',
        lane: 'string',
      },
      'spend_cap.reached': { period: 'string', cap_minor: 'number', spent_minor: 'number' },
      'webhook.test': { ping: 'boolean' },
    }
    expect(fields).toEqual(webhookFields)
    expect(webhookEventTypes.toSorted()).toEqual(Object.keys(webhookFields).toSorted())
  })
})
