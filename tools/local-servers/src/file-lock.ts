import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'

/** A lock on a file, held until `release` or the end of this process. */
export interface FileLock {
  release(): void
}

/**
 * Takes the lock if it is free; otherwise returns undefined.
 *
 * The kernel releases the lock when the process ends, also after kill -9, so a lock is never stale. Node has no flock;
 * SQLite takes the same kind of lock on its file.
 *
 * @param path a file that is used only for the lock; created if it is missing
 */
export function tryFileLock(path: string): FileLock | undefined {
  const database = new DatabaseSync(path)
  try {
    database.exec('pragma journal_mode = memory; begin exclusive')
    return { release: () => database.close() }
  } catch (error) {
    database.close()
    if (/locked|busy/i.test(String(error))) return undefined
    throw error
  }
}

/** Runs `work` while holding the lock; throws if another process holds it for longer than `timeoutMs`. */
export async function withFileLock<Result>(
  path: string,
  timeoutMs: number,
  work: () => Promise<Result>,
): Promise<Result> {
  for (const until = Date.now() + timeoutMs; ; await sleep(50)) {
    const lock = tryFileLock(path)
    if (lock !== undefined) {
      try {
        return await work()
      } finally {
        lock.release()
      }
    }
    if (Date.now() > until) throw new Error(`another process holds ${path} for over ${timeoutMs / 1000} s`)
  }
}
