import { ServiceError } from '@licensing/grpc/errors'
import type { Principal } from '@licensing/proto/catalog'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Services } from '../services.ts'

type Catalog = Pick<Services['catalog'], 'authenticateKeys'>

/** A key that is in force. */
export interface FoundKey {
  principal: Principal
  /** Time of the call of catalog, on the monotonic clock. */
  calledMs: number
}

interface Waiting {
  keyHash: string
  resolve: (found: FoundKey | undefined) => void
  reject: (error: unknown) => void
}

const maxBatchSize = 500
const maxWaitingPerCaller = 2_000
const maxWaiting = 20_000
/** Shorter than the time for which a key counts after catalog confirmed it. */
const timeoutMs = 1_500
const pauseMs = 20

/**
 * Looks up API keys that this gateway does not know: many keys in one call of catalog, one call at a time, and one key of each
 * caller in turn. A flood of invalid keys therefore costs catalog at most 50 statements per second, on a separate
 * connection.
 */
export class KeyLookups {
  readonly #catalog: Catalog
  readonly #callers = new Map<string, Waiting[]>()
  #waiting = 0
  #isRunning = false

  constructor(catalog: Catalog) {
    this.#catalog = catalog
  }

  /**
   * @returns undefined if there is no such key, or it is revoked
   * @throws ServiceError `rate_limited` if too many wait already, `unavailable` if catalog cannot be called
   */
  async lookUp(caller: string, keyHash: string): Promise<FoundKey | undefined> {
    const own = this.#callers.get(caller) ?? []
    if (own.length >= maxWaitingPerCaller || this.#waiting >= maxWaiting) {
      throw new ServiceError(
        'rate_limited',
        'too many unknown API keys are being looked up: try again in a minute',
      )
    }
    return new Promise((resolve, reject) => {
      own.push({ keyHash, resolve, reject })
      this.#callers.set(caller, own)
      this.#waiting += 1
      if (!this.#isRunning) void this.#lookUpAll()
    })
  }

  async #lookUpAll(): Promise<void> {
    this.#isRunning = true
    // Keys that arrive in this turn of the event loop are in one call.
    await sleep(0)
    while (this.#waiting > 0) {
      const batch = this.#take()
      try {
        const calledMs = performance.now()
        const keyHashes = batch.map(({ keyHash }) => Buffer.from(keyHash, 'base64'))
        const { answers } = await this.#catalog.authenticateKeys({ keyHashes }, { timeoutMs })
        batch.forEach(({ resolve }, at) => {
          const principal = answers[at]?.principal
          resolve(principal && { principal, calledMs })
        })
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
      await sleep(pauseMs)
    }
    this.#isRunning = false
  }

  #take(): Waiting[] {
    const batch: Waiting[] = []
    // A caller with more keys moves to the end of the queue.
    for (const [caller, own] of this.#callers) {
      batch.push(own.shift()!)
      this.#callers.delete(caller)
      if (own.length > 0) this.#callers.set(caller, own)
      if (batch.length === maxBatchSize) break
    }
    this.#waiting -= batch.length
    return batch
  }
}
