import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf } from '@licensing/database/page'
import type {
  ActivationSchema,
  ListActivationsRequest,
  ListActivationsResponseSchema,
} from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { licenceNotFound } from '../lifecycle/refusals.ts'
import { listActivationRows } from './activation-queries.ts'
import type { ActivationRow } from './activation-queries.ts'

export async function listActivations(
  { sql }: LicensingDependencies,
  request: ListActivationsRequest,
): Promise<MessageInitShape<typeof ListActivationsResponseSchema>> {
  const rows = await listActivationRows(sql, request, request)
  if (!rows) throw licenceNotFound(request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { activations: page.map(activationMessage), hasMore }
}

export function activationMessage(row: ActivationRow): MessageInitShape<typeof ActivationSchema> {
  return {
    id: row.id,
    fingerprint: row.fingerprint,
    host: row.host,
    productVersion: row.product_version,
    createdAt: timestampFromDate(row.created_at),
    lastSeenAt: timestampFromDate(row.last_seen_at),
    ...(row.lease_ends_at && { leaseEndsAt: timestampFromDate(row.lease_ends_at) }),
  }
}
