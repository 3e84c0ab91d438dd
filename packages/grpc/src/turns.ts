import { callContext } from './call-context.ts'
import { ServiceError } from './errors.ts'

/** Lets work on the same thing wait for its turn here, and not with a connection of the pool in hand. */
export interface Turns {
  /** @throws ServiceError `unavailable`, with nothing begun, when the caller has gone before its turn came */
  inTurn<T>(key: string, work: () => Promise<T>): Promise<T>
}

/** @param busy says, to a caller whose turn came too late, what it waited for and that it may try again */
export function createTurns(busy: string): Turns {
  const last = new Map<string, Promise<void>>()
  return {
    async inTurn(key, work) {
      const before = last.get(key) ?? Promise.resolve()
      const done = Promise.withResolvers<void>()
      const mine = before.then(() => done.promise)
      last.set(key, mine)
      try {
        await before
        refuseWhenLate(busy)
        return await work()
      } finally {
        done.resolve()
        if (last.get(key) === mine) last.delete(key)
      }
    },
  }
}

function refuseWhenLate(busy: string): void {
  const call = callContext()
  if (call && (call.signal.aborted || call.deadlineMs <= Date.now()))
    throw new ServiceError('unavailable', busy)
}
