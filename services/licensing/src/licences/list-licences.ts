import { timestampDate } from '@bufbuild/protobuf/wkt'
import { pageOf, rowsFor } from '@licensing/database/page'
import { checkMetadata } from '@licensing/grpc/checks'
import { invalid } from '@licensing/grpc/errors'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { licenceMessage } from '../lifecycle/licence-row.ts'
import { findLicencePage } from './list-queries.ts'

const maxMetadata = 3

export const listLicences: Handler<'listLicences'> = async ({ lists, listQueue }, request) => {
  const { status, seenSince } = request
  if (status !== undefined && !isMember('licenceStatus', status)) {
    throw invalid('/status', `must be one of ${closedSets.licenceStatus.join(', ')}`)
  }
  const metadata = checkMetadata(request.metadata)
  if (Object.keys(metadata).length > maxMetadata) {
    throw invalid('/metadata', `must have at most ${maxMetadata} names`)
  }
  const filter = {
    ...request,
    limit: rowsFor(request.limit),
    seenSince: seenSince && timestampDate(seenSince),
    metadata,
  }
  const { rows, lookedUntil } = await listQueue.run(request.accountId, () => findLicencePage(lists, filter))
  const { page, hasMore } = pageOf(rows, request.limit)
  return {
    licences: page.map(licenceMessage),
    hasMore: hasMore || lookedUntil !== undefined,
    ...(lookedUntil !== undefined && { lookedUntil }),
  }
}
