import { callContext } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'

/** Lets work on the same thing wait for its turn here, and not with a connection of the pool in hand. */
export interface Turns {
  /** @throws ServiceError `unavailable`, with nothing begun, when the caller has gone before its turn came */
  inTurn<T>(key: string, work: () => Promise<T>): Promise<T>
}

export function createTurns(): Turns {
  const last = new Map<string, Promise<void>>()
  return {
    async inTurn(key, work) {
      const before = last.get(key) ?? Promise.resolve()
      const done = Promise.withResolvers<void>()
      const mine = before.then(() => done.promise)
      last.set(key, mine)
      try {
        await before
        refuseWhenLate()
        return await work()
      } finally {
        done.resolve()
        if (last.get(key) === mine) last.delete(key)
      }
    },
  }
}

function refuseWhenLate(): void {
  const call = callContext()
  if (call && (call.signal.aborted || call.deadlineMs <= Date.now())) {
    throw new ServiceError(
      'unavailable',
      'the application is busy with other changes: try again; nothing was changed',
    )
  }
}
