import type { NewEvent } from '@licensing/events/outbox'
import type { LicenceStatus, SuspensionReason } from '@licensing/proto/closed-sets'
import type { LicenceEvent } from './licence.ts'

export interface ChangedLicence {
  id: string
  account_id: string
  application_id: string
  plan_id: string
  status: LicenceStatus
  status_reason: SuspensionReason | null
}

/** The event of a licence's change (interface 6.2). `formerPlan` is the plan before the change. */
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
