import type { NewEvent } from '@licensing/events/outbox'
import { fieldsOf, messageOf } from '@licensing/grpc/fields'
import type { RowOf } from '@licensing/grpc/fields'
import { readMember } from '@licensing/proto/closed-sets'
import type { LicenceStatus, SuspensionReason } from '@licensing/proto/closed-sets'
import { LicenceSchema, RestrictionsSchema } from '@licensing/proto/licensing'
import type { Licence } from '@licensing/proto/licensing'
import type { LicenceEvent } from './licence.ts'
import { restrictionsMessage } from './restrictions.ts'
import type { RestrictionColumns } from './restrictions.ts'

/** A licence with the columns of its message. */
export interface LicenceRow extends Omit<RowOf<typeof LicenceSchema>, 'restrictions'>, RestrictionColumns {
  account_id: string
  status: LicenceStatus
  status_reason: SuspensionReason | null
  created_at: Date
  updated_at: Date
}

const messageColumns = fieldsOf(LicenceSchema).filter((name) => name !== 'restrictions')

export const rowColumns: readonly (keyof LicenceRow)[] = [
  'account_id',
  ...messageColumns,
  ...fieldsOf(RestrictionsSchema),
]

export function licenceMessage(row: LicenceRow): Licence {
  return messageOf(LicenceSchema, {
    ...row,
    status: readMember('licenceStatus', row.status),
    status_reason: row.status_reason && readMember('suspensionReason', row.status_reason),
    restrictions: restrictionsMessage(row),
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
    licencePlanId: licence.plan_id,
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
