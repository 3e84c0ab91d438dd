import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { NewEvent } from '@licensing/events/outbox'
import { complete } from '@licensing/grpc/complete'
import type { LicenceStatus, SuspensionReason } from '@licensing/proto/closed-sets'
import { readMember } from '@licensing/proto/closed-sets'
import { LicenceSchema, RestrictionsSchema } from '@licensing/proto/licensing'
import type { Licence, Restrictions } from '@licensing/proto/licensing'
import type { Metadata } from '@licensing/proto/metadata'
import type { LicenceEvent } from './licence.ts'

export interface LicenceRow {
  id: string
  key: string
  account_id: string
  application_id: string
  plan_id: string
  status: LicenceStatus
  status_reason: SuspensionReason | null
  external_ref: string
  domains: string[]
  max_activations: number | null
  max_seats: number | null
  max_concurrent: number | null
  /** Set if and only if `max_concurrent` is. */
  lease_minutes: number | null
  expires_on: Date | null
  created_at: Date
  updated_at: Date
  metadata: Metadata
  updates_until: Date | null
  trial: boolean
}

export function licenceMessage(row: LicenceRow): Licence {
  return complete(LicenceSchema, {
    id: row.id,
    key: row.key,
    status: readMember('licenceStatus', row.status),
    planId: row.plan_id,
    applicationId: row.application_id,
    externalRef: row.external_ref,
    createdAt: timestampFromDate(row.created_at),
    updatedAt: timestampFromDate(row.updated_at),
    restrictions: restrictionsMessage(row),
    expiresOn: row.expires_on ? timestampFromDate(row.expires_on) : undefined,
    metadata: row.metadata,
    updatesUntil: row.updates_until ? timestampFromDate(row.updates_until) : undefined,
    trial: row.trial,
    statusReason: row.status_reason === null ? undefined : readMember('suspensionReason', row.status_reason),
  })
}

function restrictionsMessage(row: LicenceRow): Restrictions | undefined {
  const { domains, max_activations, max_seats, max_concurrent, lease_minutes } = row
  const limits = [max_activations, max_seats, max_concurrent]
  if (domains.length === 0 && limits.every((limit) => limit === null)) return undefined
  return complete(RestrictionsSchema, {
    domains,
    maxActivations: max_activations ?? undefined,
    maxSeats: max_seats ?? undefined,
    maxConcurrent: max_concurrent ?? undefined,
    leaseMinutes: lease_minutes ?? undefined,
  })
}

/** The columns that events contain. */
export type ChangedLicence = Pick<
  LicenceRow,
  'id' | 'account_id' | 'application_id' | 'plan_id' | 'status' | 'status_reason'
>

/** The event of a licence's change (docs/guides/lifecycle.md, "Transitions"). `formerPlan` is the plan before the change. */
export function licenceEvent(name: LicenceEvent, licence: ChangedLicence, formerPlan: string): NewEvent {
  return {
    accountId: licence.account_id,
    applicationId: licence.application_id,
    payload: payloadOf(name, licence, formerPlan),
  }
}

function payloadOf(
  name: LicenceEvent,
  { id: licenceId, plan_id: planId, status, status_reason: reason }: ChangedLicence,
  formerPlan: string,
): NewEvent['payload'] {
  switch (name) {
    case 'licencePlanChanged':
      return { case: name, value: { licenceId, planId, status, previous: { planId: formerPlan } } }
    case 'licenceSuspended':
      return { case: name, value: { licenceId, status, ...(reason && { reason }) } }
    default:
      return { case: name, value: { licenceId, status } }
  }
}
