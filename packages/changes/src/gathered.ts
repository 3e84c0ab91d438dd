import type { DescMessage } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { isDatabaseUnavailable, isLockTimeout } from '@licensing/database/problems'
import type { ServedKey } from '@licensing/grpc/call-context'
import { createBatcher } from './batcher.ts'
import { LostRace } from './change.ts'
import type { Change } from './change.ts'
import { bytesOf, claimKeys, keyOfCall, record } from './claims.ts'
import type { CallOutcome, RecordedAnswer } from './claims.ts'

interface GatheredChange<Call, O extends DescMessage, T> {
  /**
   * Makes the changes of calls; returns the outcomes in their order. With `skip` it waits for no rows of a single call that
   * other transactions have locked: such a call is `busy`. With `wait` there is one call.
   */
  work: (tx: Transaction, calls: Call[], onLocked: 'wait' | 'skip') => Promise<CallOutcome<T>[]>
  answer: RecordedAnswer<O, T>
  /** Calls of one queue share transactions. */
  queueOf: (call: Call) => string
}

const maxBatchSize = 100

/**
 * A change whose calls share a transaction if they arrive together, also the records of their Idempotency-Keys. A call
 * whose key was used gets the answer of that call. A busy call gets a transaction of its own and waits there, as in `change`.
 *
 * @returns a function that makes the change of a call, or throws the error of its refusal
 */
export function createGatheredChange<Call, O extends DescMessage, T>(
  change: Change,
  { work, answer, queueOf }: GatheredChange<Call, O, T>,
): (call: Call) => Promise<T> {
  interface Waiting {
    call: Call
    key: ServedKey | undefined
  }
  const changeAll = async (tx: Transaction, batch: Waiting[]): Promise<CallOutcome<T>[]> => {
    const keys = batch.flatMap(({ key }) => key ?? [])
    const closed = await claimKeys(tx, keys)
    const open = batch.filter(({ key }) => !(key && closed.has(key)))
    const calls = open.map(({ call }) => call)
    const made = calls.length > 0 ? await work(tx, calls, 'skip') : []
    const records = open.flatMap(({ key }, at) => {
      const outcome = made[at]!
      if (!key || outcome.kind !== 'done') return []
      return { key, answer: bytesOf(answer, outcome.made), isFinished: true }
    })
    await record(tx, records)
    const outcomes = new Map(open.map((waiting, at) => [waiting, made[at]!]))
    return batch.map((waiting) => outcomes.get(waiting) ?? closed.get(waiting.key!)!)
  }
  const changeTogether = createBatcher<Waiting, CallOutcome<T>>(
    (batch) =>
      change((tx) => changeAll(tx, batch), { maxWaitMs: 0 }).catch((error: unknown) => {
        if (isLockTimeout(error)) return batch.map(() => ({ kind: 'busy' }))
        throw error
      }),
    { maxBatchSize, isTransient: isDatabaseUnavailable, queueOf: ({ call }) => queueOf(call) },
  )
  const changeAlone = (call: Call) =>
    change(
      async (tx) => {
        const [outcome] = await work(tx, [call], 'wait')
        if (outcome!.kind === 'busy') throw new LostRace()
        return madeOf(outcome!)
      },
      { answer },
    )
  return async (call) => {
    const outcome = await changeTogether({ call, key: keyOfCall() })
    return outcome.kind === 'busy' ? changeAlone(call) : madeOf(outcome)
  }
}

function madeOf<T>(outcome: Exclude<CallOutcome<T>, { kind: 'busy' }>): T {
  if (outcome.kind === 'refused') throw outcome.error
  return outcome.made
}
