import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { deleteOldRecords } from './record-queries.ts'

const purgeEveryMs = 10 * 60_000
// Limits the time for which a statement holds locks.
const batchSize = 1_000

/** Deletes records of idempotency keys that are older than 24 hours, in batches, as long as the process runs. */
export function startPurge({ sql, log }: { sql: Database; log: Logger }): Loop {
  const purge = async () => ((await deleteOldRecords(sql, batchSize)) === batchSize ? 0 : purgeEveryMs)
  return startDatabaseLoop('deletion of old idempotency keys', log, purgeEveryMs, purge)
}
