import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { Sql } from '@licensing/database/connect'
import type { LicenceStatus, SuspensionReason } from '@licensing/proto/closed-sets'
import { readMember } from '@licensing/proto/closed-sets'
import type { LicenceSchema, RestrictionsSchema } from '@licensing/proto/licensing'

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
  expires_on: Date | null
  created_at: Date
  updated_at: Date
}

/** The columns of a LicenceRow, of the table or query named `l`. */
export const licenceColumns = (sql: Sql) => sql`
  l.id, l.key, l.account_id, l.application_id, l.plan_id, l.status, l.status_reason, l.external_ref, l.domains,
  l.max_activations, l.max_seats, l.expires_on, l.created_at, l.updated_at`

export function licenceMessage(row: LicenceRow): MessageInitShape<typeof LicenceSchema> {
  const restrictions = restrictionsMessage(row)
  return {
    id: row.id,
    key: row.key,
    status: readMember('licenceStatus', row.status),
    planId: row.plan_id,
    applicationId: row.application_id,
    externalRef: row.external_ref,
    createdAt: timestampFromDate(row.created_at),
    updatedAt: timestampFromDate(row.updated_at),
    ...(restrictions && { restrictions }),
    ...(row.expires_on && { expiresOn: timestampFromDate(row.expires_on) }),
    ...(row.status_reason !== null && { statusReason: readMember('suspensionReason', row.status_reason) }),
  }
}

function restrictionsMessage(row: LicenceRow): MessageInitShape<typeof RestrictionsSchema> | undefined {
  const { domains, max_activations, max_seats } = row
  if (domains.length === 0 && max_activations === null && max_seats === null) return undefined
  return {
    domains,
    ...(max_activations !== null && { maxActivations: max_activations }),
    ...(max_seats !== null && { maxSeats: max_seats }),
  }
}
