import { callContext } from './call-context.ts'
import { ServiceError } from './errors.ts'

/** Runs work of the same key in order, few at a time. Work waits here, so it does not hold a connection of the pool. */
export interface Turns {
  /** @throws ServiceError `unavailable` if the caller gave up before `work` began */
  inTurn<T>(key: string, work: () => Promise<T>): Promise<T>
}

/**
 * @param busy the detail of that error: says what the call waited for and that it can be repeated
 * @param atOnce how much work of one key may run at the same time
 */
export function createTurns(busy: string, atOnce = 1): Turns {
  const lines = new Map<string, { running: number; waiting: (() => void)[] }>()
  return {
    async inTurn(key, work) {
      const line = lines.get(key) ?? { running: 0, waiting: [] }
      lines.set(key, line)
      if (line.running < atOnce) line.running += 1
      else await new Promise<void>((resolve) => line.waiting.push(resolve))
      try {
        refuseWhenLate(busy)
        return await work()
      } finally {
        const next = line.waiting.shift()
        if (next) next()
        else line.running -= 1
        if (line.running === 0) lines.delete(key)
      }
    },
  }
}

function refuseWhenLate(busy: string): void {
  const call = callContext()
  if (call && (call.signal.aborted || call.deadlineMs <= Date.now()))
    throw new ServiceError('unavailable', busy)
}
