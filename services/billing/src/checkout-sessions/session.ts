import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import type { CheckoutSessionSchema } from '@licensing/proto/billing'
import { readMember } from '@licensing/proto/closed-sets'
import type { SessionRow } from './session-queries.ts'

/** What the vendor sees of a checkout session. */
export type ListedSession = Pick<
  SessionRow,
  | 'id'
  | 'url'
  | 'status'
  | 'plan_id'
  | 'external_ref'
  | 'amount'
  | 'currency'
  | 'fee_minor'
  | 'created_at'
  | 'licence_id'
  | 'failure_reason'
>

export function sessionMessage(row: ListedSession): MessageInitShape<typeof CheckoutSessionSchema> {
  return {
    id: row.id,
    url: row.url,
    status: readMember('checkoutStatus', row.status),
    planId: row.plan_id,
    externalRef: row.external_ref,
    amount: row.amount,
    currency: row.currency,
    feeMinor: row.fee_minor,
    createdAt: timestampFromDate(row.created_at),
    ...(row.licence_id !== null && { licenceId: row.licence_id }),
    ...(row.failure_reason !== null && { failureReason: row.failure_reason }),
  }
}

export function sessionNotFound(id: string): ServiceError {
  return new ServiceError('not_found', `there is no checkout session ${id.slice(0, 64)}`)
}
