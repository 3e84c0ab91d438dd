import { callContext } from './call-context.ts'
import { ServiceError } from './errors.ts'

/** Runs work on the same resource one at a time. Work waits here, so it does not hold a connection of the pool. */
export interface Turns {
  /** @throws ServiceError `unavailable` if the caller gave up before `work` began */
  inTurn<T>(key: string, work: () => Promise<T>): Promise<T>
}

/** @param busy the detail of that error: says what the call waited for and that it can be repeated */
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
