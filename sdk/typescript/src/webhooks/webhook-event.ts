import type { components } from '../backend/gen/api.ts'

type Licence = components['schemas']['Licence']

/** The content of `data.object` for each type of event. It is small on purpose: fetch the licence for more. */
export interface WebhookObjects {
  'licence.created': LicenceOnPlan
  'licence.plan_changed': LicenceOnPlan
  'licence.suspended': LicenceWithStatus & { readonly reason?: NonNullable<Licence['status_reason']> }
  'licence.reactivated': LicenceWithStatus
  'licence.revoked': LicenceWithStatus
  'licence.expired': LicenceWithStatus
  'licence.retired': LicenceWithStatus
  'licence.downgraded': LicenceWithStatus
  'licence.expiring': LicenceWithStatus & { readonly expires_on: string }
  'licence.entitlements_changed': LicenceWithStatus
  'licence.trial_started': LicenceOnPlan
  /** Amounts are integers in minor units of `currency` (lower-case ISO 4217). */
  'payment.succeeded': { readonly licence_id: string; readonly amount: number; readonly currency: string }
  'payment.provision_failed': {
    readonly session_id: string
    readonly plan_id: string
    readonly amount: number
    readonly currency: string
    readonly reason: string
  }
  'refund.processed': {
    readonly licence_id: string
    readonly charge_ref: string
    readonly amount: number
    readonly lane: components['schemas']['Refund']['lane']
  }
  'spend_cap.reached': { readonly period: string; readonly cap_minor: number; readonly spent_minor: number }
  'webhook.test': { readonly ping: true }
}

interface LicenceWithStatus {
  readonly licence_id: string
  readonly status: Licence['status']
}

interface LicenceOnPlan extends LicenceWithStatus {
  readonly plan_id: string
}

export type WebhookEventType = keyof WebhookObjects

// The compiler refuses a type that is declared above and missing here, and a type that is not declared above.
const declared = {
  'licence.created': true,
  'licence.plan_changed': true,
  'licence.suspended': true,
  'licence.reactivated': true,
  'licence.revoked': true,
  'licence.expired': true,
  'licence.retired': true,
  'licence.downgraded': true,
  'licence.expiring': true,
  'licence.entitlements_changed': true,
  'licence.trial_started': true,
  'payment.succeeded': true,
  'payment.provision_failed': true,
  'refund.processed': true,
  'spend_cap.reached': true,
  'webhook.test': true,
} satisfies Record<WebhookEventType, true>

/** Every type of event known to this version, for example to choose the events of an endpoint. */
export const webhookEventTypes: readonly WebhookEventType[] = Object.keys(declared) as WebhookEventType[]

export interface WebhookEnvelope<Type extends WebhookEventType> {
  /** `evt_…`: the same event may come more than once, so remember the ids that were handled. */
  readonly id: string
  readonly type: Type
  /** The version of the event's schema, `YYYY-MM-DD`. */
  readonly api_version: string
  /** ISO 8601, UTC. */
  readonly created_at: string
  /** Rises by one with each event of the account; events may arrive out of order. */
  readonly sequence: number
  readonly account_id: string
  readonly application_id: string
  readonly data: { readonly object: WebhookObjects[Type] }
  readonly previous: Type extends 'licence.plan_changed' ? { readonly plan_id: string } : null
}

/**
 * An event of any type known to this version. New types appear over time: end a `switch` over `type` with a
 * `default` that does nothing.
 */
export type WebhookEvent = { [Type in WebhookEventType]: WebhookEnvelope<Type> }[WebhookEventType]
