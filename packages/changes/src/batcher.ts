interface Waiting<Request, Outcome> {
  request: Request
  resolve: (outcome: Outcome) => void
  reject: (error: unknown) => void
}

interface RequestQueue<Request, Outcome> {
  waiting: Waiting<Request, Outcome>[]
  busySlots: number
}

interface BatcherOptions<Request> {
  maxBatchSize: number
  /** Whether each request alone would fail with this error too, such as an outage of the database. */
  isTransient: (error: unknown) => boolean
  /** Requests of one queue share batches and wait for each other. By default all requests are in one queue. */
  queueOf?: (request: Request) => string
  /** How many batches of a queue may run at a time; 1 by default. */
  slots?: number
}

/**
 * Group commit: requests that arrive together share one statement and one commit. If a slot is free, a batch starts at the
 * end of the current turn of the event loop, with the requests that arrived in it. If all slots of a queue are busy,
 * requests wait and start together when a slot is free.
 *
 * If a batch fails, its requests are run again one by one, so that one request's error does not affect the others.
 *
 * @param flush runs a batch; returns the outcomes in the order of the requests
 */
export function createBatcher<Request, Outcome>(
  flush: (batch: Request[]) => Promise<Outcome[]>,
  { maxBatchSize, isTransient, queueOf, slots = 1 }: BatcherOptions<Request>,
): (request: Request) => Promise<Outcome> {
  const queues = new Map<string, RequestQueue<Request, Outcome>>()

  const runBatch = async (batch: Waiting<Request, Outcome>[]): Promise<void> => {
    try {
      const outcomes = await flush(batch.map((waiting) => waiting.request))
      batch.forEach((waiting, at) => waiting.resolve(outcomes[at]!))
    } catch (error) {
      if (batch.length === 1 || isTransient(error)) {
        for (const waiting of batch) waiting.reject(error)
        return
      }
      for (const waiting of batch) await runBatch([waiting])
    }
  }

  const runQueue = async (name: string, queue: RequestQueue<Request, Outcome>): Promise<void> => {
    while (queue.waiting.length > 0) await runBatch(queue.waiting.splice(0, maxBatchSize))
    queue.busySlots -= 1
    if (queue.busySlots === 0) queues.delete(name)
  }

  return (request) =>
    new Promise((resolve, reject) => {
      const name = queueOf?.(request) ?? ''
      const queue = queues.get(name) ?? { waiting: [], busySlots: 0 }
      queue.waiting.push({ request, resolve, reject })
      if (queue.waiting.length > 1 || queue.busySlots >= slots) return
      queues.set(name, queue)
      queue.busySlots += 1
      setImmediate(() => void runQueue(name, queue))
    })
}
