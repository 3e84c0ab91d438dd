import type { NewEvent } from '@licensing/events/outbox'

export const licenceStatuses = ['active', 'suspended', 'revoked', 'expired', 'retired', 'downgraded'] as const

export type LicenceStatus = (typeof licenceStatuses)[number]

type SuspensionReason = 'manual' | 'plan_archived' | 'payment_failed' | 'dispute_inquiry'

/** A licence's event: the case of the payload in events.proto. */
export type LicenceEvent =
  | 'licenceSuspended'
  | 'licenceReactivated'
  | 'licenceRevoked'
  | 'licenceExpired'
  | 'licenceRetired'
  | 'licenceDowngraded'

export interface Transition {
  from: readonly LicenceStatus[]
  to: LicenceStatus
  /** Where it does nothing and is no error: it has happened already. */
  unchangedIn?: readonly LicenceStatus[]
  /** Why the licence is suspended from then on. */
  reason?: SuspensionReason
  /** Only a licence suspended for this reason changes. */
  onlySuspendedFor?: SuspensionReason
  /** Refused while the plan is retired: there is never an active licence on a retired plan. */
  needsActivePlan?: true
  /** What the licence was is kept, for a renewal that arrives late. */
  remembersFormer?: true
  emits: LicenceEvent
  history: 'suspended' | 'reactivated' | 'revoked' | 'expired' | 'retired' | 'downgraded'
}

const suspended = {
  from: ['active'],
  to: 'suspended',
  emits: 'licenceSuspended',
  history: 'suspended',
} as const
const reactivated = {
  from: ['suspended'],
  to: 'active',
  needsActivePlan: true,
  emits: 'licenceReactivated',
  history: 'reactivated',
} as const
const revoked = {
  from: ['active', 'suspended', 'expired', 'downgraded'],
  to: 'revoked',
  // Interface 3.1: there is no un-revoke.
  unchangedIn: ['revoked'],
  emits: 'licenceRevoked',
  history: 'revoked',
} as const
const expired = {
  from: ['active', 'suspended', 'downgraded'],
  to: 'expired',
  emits: 'licenceExpired',
  history: 'expired',
} as const

/** Interface 3.1 as a table, with what decisions 4 and 7 add. */
export const transitions = {
  // The vendor's verbs.
  suspend: { ...suspended, reason: 'manual' },
  reactivate: reactivated,
  revoke: revoked,
  retire: {
    from: ['active', 'suspended', 'revoked', 'expired', 'downgraded'],
    to: 'retired',
    unchangedIn: ['retired'],
    emits: 'licenceRetired',
    history: 'retired',
  },
  // What happens around a licence.
  planArchived: { ...suspended, reason: 'plan_archived' },
  paymentsFailed: { ...suspended, reason: 'payment_failed' },
  inquiryOpened: { ...suspended, reason: 'dispute_inquiry' },
  inquiryClosed: { ...reactivated, onlySuspendedFor: 'dispute_inquiry' },
  refunded: revoked,
  partlyRefunded: {
    from: ['active', 'suspended', 'expired'],
    to: 'downgraded',
    emits: 'licenceDowngraded',
    history: 'downgraded',
  },
  expiryPassed: { ...expired, remembersFormer: true },
  subscriptionCancelled: expired,
} as const satisfies Record<string, Transition>

export type TransitionName = keyof typeof transitions

export const vendorVerbs = ['suspend', 'reactivate', 'revoke', 'retire'] as const

export type VendorVerb = (typeof vendorVerbs)[number]

/** The verbs that would change a licence now. */
export function allowedVerbs(status: LicenceStatus, planIsActive: boolean): VendorVerb[] {
  return vendorVerbs.filter((verb) => {
    const transition: Transition = transitions[verb]
    return transition.from.includes(status) && (planIsActive || !transition.needsActivePlan)
  })
}

export interface ChangedLicence {
  id: string
  account_id: string
  application_id: string
  status: LicenceStatus
  status_reason: string | null
}

/** The event that tells of a licence's change (interface 6.2). */
export function licenceEvent(name: LicenceEvent, licence: ChangedLicence): NewEvent {
  const value = { licenceId: licence.id, status: licence.status }
  const payload: NewEvent['payload'] =
    name === 'licenceSuspended'
      ? { case: name, value: { ...value, ...(licence.status_reason && { reason: licence.status_reason }) } }
      : { case: name, value }
  return { accountId: licence.account_id, applicationId: licence.application_id, payload }
}
