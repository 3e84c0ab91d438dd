import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { findUnusedLicences, freeUnused } from '../activations/unused-queries.ts'
import { deleteOldTrialAddresses } from '../trials/trial-queries.ts'
import { keptSeconds } from '../signing-keys/signing-keys.ts'
import { deleteOldSigningKeys } from '../signing-keys/signing-key-queries.ts'

interface UpkeepOptions {
  sql: Database
  change: Change
  tokenLifeSeconds: number
  log: Logger
  /** Default: a minute. */
  intervalMs?: number | undefined
}

const rowsAtOnce = 1_000
const activationsAtOnce = 500

/**
 * Deletes signing keys that no longer verify anything and counts of trials of earlier days. Frees activations of floating licences that
 * have had no lease for long, and activations that their products have deactivated and that keep no slot any more.
 */
export function startUpkeep({
  sql,
  change,
  tokenLifeSeconds,
  log,
  intervalMs = 60_000,
}: UpkeepOptions): Loop {
  return startDatabaseLoop('upkeep', log, intervalMs, async (signal) => {
    await deleteOldSigningKeys(sql, keptSeconds(tokenLifeSeconds))
    while (!signal.aborted && (await deleteOldTrialAddresses(sql, rowsAtOnce)) >= rowsAtOnce) {
      // Until fewer than a full batch are left.
    }
    await freeAllUnused(sql, change, signal)
  })
}

/** Frees activations until none is left, except those of licences that other transactions have locked. */
async function freeAllUnused(sql: Database, change: Change, signal: AbortSignal): Promise<void> {
  let freed: number
  do {
    freed = 0
    for (const licenceId of await findUnusedLicences(sql, activationsAtOnce)) {
      if (signal.aborted) return
      freed += await change((tx) => freeUnused(tx, licenceId, activationsAtOnce))
    }
  } while (freed > 0)
}
