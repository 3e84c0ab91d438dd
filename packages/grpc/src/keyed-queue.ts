import { ServiceError } from './errors.ts'
import { hasGivenUp } from './given-up.ts'

/** Runs work of the same key in order, few at a time. Work waits here, so it does not hold a connection of the pool. */
export interface KeyedQueue {
  /** @throws ServiceError `unavailable` if the caller gave up before `work` began */
  run<T>(key: string, work: () => Promise<T>): Promise<T>
}

/**
 * @param busy the detail of that error: says what the call waited for and that it can be repeated
 * @param concurrency how much work of one key may run at the same time
 */
export function createKeyedQueue(busy: string, concurrency = 1): KeyedQueue {
  const queues = new Map<string, { running: number; waiting: (() => void)[] }>()
  return {
    async run(key, work) {
      const queue = queues.get(key) ?? { running: 0, waiting: [] }
      queues.set(key, queue)
      if (queue.running < concurrency) queue.running += 1
      else await new Promise<void>((resolve) => queue.waiting.push(resolve))
      try {
        if (hasGivenUp()) throw new ServiceError('unavailable', busy)
        return await work()
      } finally {
        const next = queue.waiting.shift()
        if (next) next()
        else queue.running -= 1
        if (queue.running === 0) queues.delete(key)
      }
    },
  }
}
