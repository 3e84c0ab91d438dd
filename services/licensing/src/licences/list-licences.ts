import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { ListLicencesRequest, ListLicencesResponseSchema } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { pageLimit } from '../page.ts'
import { licenceMessage } from './licence-row.ts'
import { findLicences } from './list-queries.ts'

export async function listLicences(
  { lists }: LicensingDeps,
  request: ListLicencesRequest,
): Promise<MessageInitShape<typeof ListLicencesResponseSchema>> {
  const { status, seenSince } = request
  if (status !== undefined && !isMember('licenceStatus', status)) {
    throw invalid('/status', `must be one of ${closedSets.licenceStatus.join(', ')}`)
  }
  const limit = pageLimit(request.limit)
  const rows = await findLicences(lists, {
    ...request,
    limit: limit + 1,
    seenSince: seenSince && timestampDate(seenSince),
  })
  return { licences: rows.slice(0, limit).map(licenceMessage), hasMore: rows.length > limit }
}
