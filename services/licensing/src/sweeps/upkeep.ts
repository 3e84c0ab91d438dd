import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { forgetFreedPlaces } from '../activations/activation-queries.ts'
import { keptSeconds } from '../signing-keys/signing-keys.ts'
import { deleteOldSigningKeys } from '../signing-keys/signing-key-queries.ts'

interface UpkeepOptions {
  sql: Database
  tokenLifeSeconds: number
  log: Logger
  /** A minute when absent. */
  intervalMs?: number | undefined
}

const placesAtOnce = 1_000
const usualIntervalMs = 60_000

/** Forgets signing keys that verify nothing any more, and freed places that no longer count. */
export function startUpkeep({ sql, tokenLifeSeconds, log, intervalMs }: UpkeepOptions): Loop {
  return startLoop({
    work: async (signal) => {
      await deleteOldSigningKeys(sql, keptSeconds(tokenLifeSeconds))
      while (!signal.aborted && (await forgetFreedPlaces(sql, placesAtOnce)) >= placesAtOnce) {
        // The next ones follow at once.
      }
    },
    everyMs: intervalMs ?? usualIntervalMs,
    failed: (error) => log.warn({ err: error }, 'upkeep failed, trying again'),
    isOutage: isDatabaseOutage,
  })
}
