import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { ServiceError } from '@licensing/grpc/errors'
import { readMember } from '@licensing/proto/closed-sets'
import type { ListLicenceHistoryRequest, ListLicenceHistoryResponseSchema } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { pageLimit } from '../page.ts'
import { findHistory } from './history-queries.ts'

export async function listLicenceHistory(
  { sql }: LicensingDeps,
  request: ListLicenceHistoryRequest,
): Promise<MessageInitShape<typeof ListLicenceHistoryResponseSchema>> {
  const limit = pageLimit(request.limit)
  const rows = await findHistory(sql, request, request.beforePosition, limit + 1)
  if (!rows) throw new ServiceError('not_found', `there is no licence ${request.licenceId}`)
  return {
    entries: rows.slice(0, limit).map((row) => ({
      position: row.position,
      at: timestampFromDate(row.at),
      type: readMember('historyType', row.type),
      to: readMember('licenceStatus', row.to_status),
      actor: row.actor,
      ...(row.from_status !== null && { from: readMember('licenceStatus', row.from_status) }),
      ...(row.cause !== null && { cause: row.cause }),
    })),
    hasMore: rows.length > limit,
  }
}
