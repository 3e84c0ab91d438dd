import { messageOf } from '@licensing/grpc/fields'
import { HistoryEntrySchema } from '@licensing/proto/licensing'
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
    entries: page.map((row) =>
      messageOf(HistoryEntrySchema, {
        ...row,
        type: readMember('historyType', row.type),
        from: row.from_status && readMember('licenceStatus', row.from_status),
        to: readMember('licenceStatus', row.to_status),
        changes_json: row.changes && JSON.stringify(row.changes),
      }),
    ),
    hasMore,
  }
}
