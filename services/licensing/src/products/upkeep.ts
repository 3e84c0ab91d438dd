import type { Database } from '@licensing/database/connect'
import { Outage } from '@licensing/database/outage'
import { transaction } from '@licensing/database/transaction'
import { pause } from '@licensing/events/pause'
import type { Logger } from '@licensing/process/log'
import { keptSeconds } from './key-retention.ts'
import { deleteOldSigningKeys } from './signing-key-queries.ts'
import { forgetOldCallHomes } from './upkeep-queries.ts'

interface UpkeepOptions {
  sql: Database
  tokenLifeSeconds: number
  log: Logger
}

export interface Upkeep {
  stop(): Promise<void>
}

const intervalMs = 60_000
const callHomesKept = { keptDays: 90, roundHours: 24, licences: 500 }

/** Forgets what nobody looks at any more, a little at a time; replicas take turns. */
export function startUpkeep(options: UpkeepOptions): Upkeep {
  const stopped = new AbortController()
  const running = run(options, stopped.signal)
  return {
    async stop() {
      stopped.abort()
      await running
    },
  }
}

async function run({ sql, tokenLifeSeconds, log }: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const outage = new Outage()
  while (!signal.aborted) {
    try {
      await deleteOldSigningKeys(sql, keptSeconds(tokenLifeSeconds))
      while (!signal.aborted && (await transaction(sql, (tx) => forgetOldCallHomes(tx, callHomesKept)))) {
        // The next step follows at once.
      }
      outage.over()
    } catch (error) {
      if (!signal.aborted && outage.isNews(error)) log.warn({ err: error }, 'upkeep failed, trying again')
    }
    await pause(intervalMs, signal)
  }
}
