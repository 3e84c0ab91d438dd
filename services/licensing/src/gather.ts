interface Waiting<Request, Outcome> {
  request: Request
  resolve: (outcome: Outcome) => void
  reject: (error: unknown) => void
}

interface Lane<Request, Outcome> {
  queue: Waiting<Request, Outcome>[]
  atWork: number
}

interface GatherOptions<Request> {
  mostTogether: number
  /** Whether a failure would meet each request alone, too. */
  isTransient: (error: unknown) => boolean
  /** Requests of one lane go together and wait for each other; all are in one when absent. */
  laneOf?: (request: Request) => string
  /** How many batches of a lane may be at work at a time; 1 when absent. */
  slots?: number
}

/**
 * Group commit: requests that arrive together share one statement and one commit. Nobody waits for company: a
 * request that finds a free slot leaves at the end of this turn of the event loop, with whatever arrived in it;
 * while all slots of its lane are at work, requests collect and leave together when one is done.
 *
 * A batch that fails is done again one by one, so that a request which the database refuses takes no other with it.
 *
 * @param flush gives each request its outcome, in the order given
 */
export function gather<Request, Outcome>(
  flush: (batch: Request[]) => Promise<Outcome[]>,
  { mostTogether, isTransient, laneOf, slots = 1 }: GatherOptions<Request>,
): (request: Request) => Promise<Outcome> {
  const lanes = new Map<string, Lane<Request, Outcome>>()

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

  const drive = async (name: string, lane: Lane<Request, Outcome>): Promise<void> => {
    while (lane.queue.length > 0) await settle(lane.queue.splice(0, mostTogether))
    lane.atWork -= 1
    if (lane.atWork === 0) lanes.delete(name)
  }

  return (request) =>
    new Promise((resolve, reject) => {
      const name = laneOf?.(request) ?? ''
      const lane = lanes.get(name) ?? { queue: [], atWork: 0 }
      lane.queue.push({ request, resolve, reject })
      if (lane.queue.length > 1 || lane.atWork >= slots) return
      lanes.set(name, lane)
      lane.atWork += 1
      setImmediate(() => void drive(name, lane))
    })
}
