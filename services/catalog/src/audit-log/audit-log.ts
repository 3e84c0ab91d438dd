import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { Database, Transaction } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { idOf, timeOf } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import type { Received } from '@licensing/events/consumer-options'
import { messageOf } from '@licensing/grpc/fields'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { AuditLogEntrySchema } from '@licensing/proto/catalog'
import type { AuditLogEntry } from '@licensing/proto/catalog'
import { currentMs } from '@licensing/process/clock'
import type { Handler } from '../dependencies.ts'
import { checkPage } from '../refusals.ts'
import { deleteEntriesBefore, findEntryPage, insertEntries } from './audit-log-queries.ts'
import type { ListedEntry } from './audit-log-queries.ts'

/** Consumes the events of all services: stores the entries of the audit log and ignores other events. */
export async function consumeEntries(tx: Transaction, received: Received[]): Promise<void> {
  const rows = received.flatMap(({ event: { id, accountId, applicationId, requestId, payload } }) => {
    if (payload.case !== 'auditEntry') return []
    const { actor, operation, resourceId, changes } = payload.value
    return {
      id: `aud${id.slice('evt'.length)}`,
      account_id: accountId,
      application_id: applicationId || null,
      actor,
      operation,
      resource_id: resourceId,
      changes,
      request_id: requestId || null,
    }
  })
  await insertEntries(tx, rows)
}

// Greater than every id.
const endOfLog = 'aud_~'

export const listAuditLog: Handler<'listAuditLog'> = async ({ sql }, request) => {
  checkPage('aud', request)
  const { since, until, beforeId, limit } = request
  const firstOf = (time: Timestamp) => idOf('aud', timestampDate(time), 0n)
  const ends = [beforeId || endOfLog, until ? firstOf(until) : endOfLog].toSorted()
  const { rows, isCut, lookedUntil } = await findEntryPage(sql, {
    ...request,
    fromId: since ? firstOf(since) : '',
    beforeId: ends[0]!,
    limit: rowsFor(limit),
  })
  const { page, hasMore } = pageOf(rows, limit)
  return {
    entries: page.map(toEntry),
    hasMore: hasMore || isCut || lookedUntil !== undefined,
    ...(lookedUntil !== undefined && { lookedUntil }),
  }
}

function toEntry(row: ListedEntry): AuditLogEntry {
  return messageOf(AuditLogEntrySchema, { ...row, at: timeOf(row.id) })
}

const keptDays = 400
const deleteEveryMs = 3_600_000
// Limits the time for which a statement holds locks.
const deletedTogether = 1_000

/** Deletes entries that are older than 400 days, as long as the process runs. */
export function startDeletingEntries({ sql, log }: { sql: Database; log: Logger }): Loop {
  return startDatabaseLoop('deletion of old entries of the audit log', log, deleteEveryMs, async () => {
    const oldest = idOf('aud', new Date(currentMs() - keptDays * 86_400_000), 0n)
    return (await deleteEntriesBefore(sql, oldest, deletedTogether)) === deletedTogether ? 0 : deleteEveryMs
  })
}
