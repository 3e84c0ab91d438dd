import type { Database } from '@licensing/database/connect'
import type { Logger } from '@licensing/process/log'
import { currentTime } from '@licensing/process/clock'
import { recordKeyUse } from './api-key-queries.ts'

/** Collects when keys were used and stores it in batches, so that no request waits for it. */
export interface KeyUse {
  touch(keyId: string): void
  /** Stores the uses collected so far. */
  flush(): Promise<void>
  stop(): Promise<void>
}

const writeEveryMs = 500

export function createKeyUse(sql: Database, log: Logger): KeyUse {
  let uses = new Map<string, Date>()
  let timer: NodeJS.Timeout | undefined
  let writing = Promise.resolve()

  const write = async () => {
    clearTimeout(timer)
    timer = undefined
    if (uses.size === 0) return
    const batch = uses
    uses = new Map()
    await recordKeyUse(sql, batch).catch((error: unknown) =>
      log.warn({ err: error, keys: batch.size }, 'use of API keys could not be recorded'),
    )
  }
  const flush = () => (writing = writing.then(write))

  return {
    touch(keyId) {
      uses.set(keyId, currentTime())
      timer ??= setTimeout(() => void flush(), writeEveryMs)
    },
    flush,
    stop: flush,
  }
}
