import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { pageOf, rowsFor } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import type { Handler } from '../dependencies.ts'
import { findHistory } from '../lifecycle/history-queries.ts'
import { licenceNotFound } from '../lifecycle/refusals.ts'

export const listLicenceHistory: Handler<'listLicenceHistory'> = async ({ sql }, request) => {
  const rows = await findHistory(sql, request, request.beforePosition, rowsFor(request.limit))
  if (!rows) throw licenceNotFound(request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return {
    entries: page.map((row) => ({
      position: row.position,
      at: timestampFromDate(row.at),
      type: readMember('historyType', row.type),
      to: readMember('licenceStatus', row.to_status),
      actor: row.actor,
      ...(row.from_status !== null && { from: readMember('licenceStatus', row.from_status) }),
      ...(row.cause !== null && { cause: row.cause }),
      ...(row.changes !== null && { changesJson: JSON.stringify(row.changes) }),
    })),
    hasMore,
  }
}
