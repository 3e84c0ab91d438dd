import type { DescMessage } from '@bufbuild/protobuf'
import type { Database, Transaction } from '@licensing/database/connect'
import { isLockTimeout } from '@licensing/database/problems'
import { transaction } from '@licensing/database/transaction'
import { hasAppended } from '@licensing/events/outbox'
import type { ServedKey } from '@licensing/grpc/call-context'
import { retry } from '@licensing/process/retry'
import { bytesOf, claimKey, continuing, keyOfCall, record } from './claims.ts'
import type { RecordedAnswer } from './claims.ts'
import { setLockTimeout } from './record-queries.ts'

/**
 * Runs one change of a service's database. Each RPC and each background task makes the changes that vendors see with this
 * function:
 *
 * 1. `work` runs in one transaction with the events that it appends; the relay is woken after the commit.
 * 2. If the call has an Idempotency-Key, `answer` is recorded in the same transaction. If another call has used the key,
 *    `work` does not run, and `createRepeatable` answers with the record of that call.
 * 3. If a lock is held for long, for example by the archiving of a large plan, the transaction ends after some milliseconds,
 *    so that others can use its connection. It runs again a little later; only two such transactions run at a time.
 * 4. If `work` throws `LostRace`, or the database ends the transaction because of a deadlock, it runs again at once.
 *
 * `work` may run several times, so it does nothing that a rollback does not undo.
 *
 * @throws what `work` throws; the database's 55P03 if a lock is held for longer than `maxWaitMs`
 * @example const row = await change((tx) => insertPlan(tx, request), { answer: { schema: PlanSchema, toMessage: toPlan } })
 */
export type Change = <T, O extends DescMessage = DescMessage>(
  work: (tx: Transaction) => Promise<T>,
  options?: ChangeOptions<O, T>,
) => Promise<T>

export interface ChangeOptions<O extends DescMessage, T> {
  /** Recorded for the call's Idempotency-Key. */
  answer?: RecordedAnswer<O, T> & {
    /** Whether work follows the commit, such as a call of another service (see `createRepeatable`). */
    isUnfinished?: boolean
  }
  /** Longest wait for one lock, in milliseconds. After it the transaction ends and runs again later. */
  lockTimeoutMs?: number
  /** Longest wait for locks in all, in milliseconds. */
  maxWaitMs?: number
}

/** For changes in the background, and for changes that are too large to run again. */
export const longLockTimeout = { lockTimeoutMs: 30_000 }

/** Before `work` locked a row that it had read, another transaction changed it. */
export class LostRace extends Error {
  override name = 'LostRace'
}

// Most transactions hold their locks for less than this.
const firstLockTimeoutMs = 30
// For a transaction that runs again.
const nextLockTimeoutMs = 10
const concurrentRetries = 2
const defaultMaxWaitMs = 4_000

/** @param wake called after a commit that appended events: the relay's `wake` */
export function createChange(sql: Database, wake: () => void = () => {}): Change {
  const limitRetries = limitConcurrency(concurrentRetries)
  return async (work, { answer, lockTimeoutMs, maxWaitMs = defaultMaxWaitMs } = {}) => {
    const key = answer && keyOfCall()
    const commit = async (timeoutMs: number) => {
      let hasEvents = false
      const made = await transaction(sql, async (tx) => {
        await setLockTimeout(tx, timeoutMs)
        const made = await (key ? onceForKey(tx, key, answer, work) : work(tx))
        hasEvents = hasAppended(tx)
        return made
      })
      if (hasEvents) wake()
      if (key && answer.isUnfinished) continuing.set(key, true)
      return made
    }
    const deadline = performance.now() + maxWaitMs
    let hasWaited = false
    const attempt = () =>
      hasWaited
        ? limitRetries(() => commit(lockTimeoutMs ?? nextLockTimeoutMs))
        : commit(lockTimeoutMs ?? firstLockTimeoutMs)
    const isRetried = (error: unknown) => {
      if (error instanceof LostRace) return 'at once'
      hasWaited ||= isLockTimeout(error)
      return isLockTimeout(error) && performance.now() < deadline
    }
    return retry(attempt, { firstMs: 15, maxMs: 375, jitter: 2 / 3, isRetried })
  }
}

/**
 * Does the work of a call once for its key. The work and its answer commit together. The work does not wait until the key
 * is claimed: if the claim fails, the transaction is rolled back, whatever the work did.
 */
async function onceForKey<O extends DescMessage, T>(
  tx: Transaction,
  key: ServedKey,
  answer: NonNullable<ChangeOptions<O, T>['answer']>,
  work: (tx: Transaction) => Promise<T>,
): Promise<T> {
  const claiming = continuing.get(key) ? undefined : claimKey(tx, key)
  const [claim, made] = await Promise.allSettled([claiming, work(tx)])
  if (claim.status === 'rejected') throw claim.reason
  if (made.status === 'rejected') throw made.reason
  await record(tx, [{ key, answer: bytesOf(answer, made.value), isFinished: !answer.isUnfinished }])
  return made.value
}

/** Runs at most `max` pieces of work at a time. Others wait in the order of their calls. */
function limitConcurrency(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = []
  let running = 0
  return async (work) => {
    if (running >= max) await new Promise<void>((resolve) => waiting.push(resolve))
    else running += 1
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next) next()
      else running -= 1
    }
  }
}
