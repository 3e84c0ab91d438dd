import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { deleteFreedPlaces } from '../activations/activation-queries.ts'
import { keptSeconds } from '../signing-keys/signing-keys.ts'
import { deleteOldSigningKeys } from '../signing-keys/signing-key-queries.ts'
import { deleteOldNotices } from './notice-queries.ts'

interface UpkeepOptions {
  sql: Database
  tokenLifeSeconds: number
  log: Logger
  /** A minute when absent. */
  intervalMs?: number | undefined
}

const rowsAtOnce = 1_000
const usualIntervalMs = 60_000

/** Deletes signing keys that no longer verify anything, freed places that no longer count, and notices of passed ends. */
export function startUpkeep({ sql, tokenLifeSeconds, log, intervalMs }: UpkeepOptions): Loop {
  return startLoop({
    work: async (signal) => {
      await deleteOldSigningKeys(sql, keptSeconds(tokenLifeSeconds))
      for (const deleteOld of [deleteFreedPlaces, deleteOldNotices]) {
        while (!signal.aborted && (await deleteOld(sql, rowsAtOnce)) >= rowsAtOnce) {
          // Until fewer than a full batch are left.
        }
      }
    },
    everyMs: intervalMs ?? usualIntervalMs,
    failed: (error) => log.warn({ err: error }, 'upkeep failed, trying again'),
    isOutage: isDatabaseOutage,
  })
}
