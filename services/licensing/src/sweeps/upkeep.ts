import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import type { Logger } from '@licensing/process/log'
import type { Loop } from '@licensing/process/loop'
import { deleteFreedPlaces } from '../activations/activation-queries.ts'
import { findIdleLicences, removeIdleActivations } from '../activations/lease-queries.ts'
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
 * Deletes signing keys that no longer verify anything, freed places that no longer count, and
 * activations of floating licences that have had no lease for long.
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
    while (!signal.aborted && (await deleteFreedPlaces(sql, rowsAtOnce)) >= rowsAtOnce) {
      // Until fewer than a full batch are left.
    }
    await removeAllIdle(sql, change, signal)
  })
}

/** Removes idle activations until none is left, except those of licences that other transactions have locked. */
async function removeAllIdle(sql: Database, change: Change, signal: AbortSignal): Promise<void> {
  let removed: number
  do {
    removed = 0
    for (const licenceId of await findIdleLicences(sql, activationsAtOnce)) {
      if (signal.aborted) return
      removed += await change((tx) => removeIdleActivations(tx, licenceId, activationsAtOnce))
    }
  } while (removed > 0)
}
