interface Waiting<Request, Outcome> {
  request: Request
  resolve: (outcome: Outcome) => void
  reject: (error: unknown) => void
}

interface RequestQueue<Request, Outcome> {
  waiting: Waiting<Request, Outcome>[]
  atWork: number
}

interface GatherOptions<Request> {
  mostTogether: number
  /** Whether a failure would meet each request alone, too. */
  isTransient: (error: unknown) => boolean
  /** Requests of one queue go together and wait for each other; all are in one when absent. */
  queueOf?: (request: Request) => string
  /** How many batches of a queue may be at work at a time; 1 when absent. */
  slots?: number
}

/**
 * Group commit: requests that arrive together share one statement and one commit. Nobody waits for company: a
 * request that finds a free slot leaves at the end of this turn of the event loop, with whatever arrived in it;
 * while all slots of its queue are at work, requests collect and leave together when one is done.
 *
 * A batch that fails is done again one by one, so that a request which the database refuses takes no other with it.
 *
 * @param flush gives each request its outcome, in the order given
 */
export function gather<Request, Outcome>(
  flush: (batch: Request[]) => Promise<Outcome[]>,
  { mostTogether, isTransient, queueOf, slots = 1 }: GatherOptions<Request>,
): (request: Request) => Promise<Outcome> {
  const queues = new Map<string, RequestQueue<Request, Outcome>>()

  const settle = async (batch: Waiting<Request, Outcome>[]): Promise<void> => {
    try {
      const outcomes = await flush(batch.map((waiting) => waiting.request))
      batch.forEach((waiting, at) => waiting.resolve(outcomes[at]!))
    } catch (error) {
      if (batch.length === 1 || isTransient(error)) {
        for (const waiting of batch) waiting.reject(error)
        return
      }
      for (const waiting of batch) await settle([waiting])
    }
  }

  const drive = async (name: string, queue: RequestQueue<Request, Outcome>): Promise<void> => {
    while (queue.waiting.length > 0) await settle(queue.waiting.splice(0, mostTogether))
    queue.atWork -= 1
    if (queue.atWork === 0) queues.delete(name)
  }

  return (request) =>
    new Promise((resolve, reject) => {
      const name = queueOf?.(request) ?? ''
      const queue = queues.get(name) ?? { waiting: [], atWork: 0 }
      queue.waiting.push({ request, resolve, reject })
      if (queue.waiting.length > 1 || queue.atWork >= slots) return
      queues.set(name, queue)
      queue.atWork += 1
      setImmediate(() => void drive(name, queue))
    })
}
