interface Waiting<Request, Outcome> {
  request: Request
  resolve: (outcome: Outcome) => void
  reject: (error: unknown) => void
}

/**
 * Group commit: requests that arrive together share one statement and one commit. Nobody waits for company: a
 * request that finds a free slot leaves at the end of this turn of the event loop, with whatever arrived in it;
 * while all slots are at work, requests collect and leave together when one is done.
 *
 * A batch that fails is done again one by one, so that a request which the database refuses takes no other with it.
 *
 * @param flush gives each request its outcome, in the order given
 */
export function gather<Request, Outcome>(
  flush: (batch: Request[]) => Promise<Outcome[]>,
  options: { mostTogether: number; slots: number; isTransient: (error: unknown) => boolean },
): (request: Request) => Promise<Outcome> {
  const queue: Waiting<Request, Outcome>[] = []
  let free = options.slots
  let scheduled = false

  const settle = async (batch: Waiting<Request, Outcome>[]): Promise<void> => {
    try {
      const outcomes = await flush(batch.map((waiting) => waiting.request))
      batch.forEach((waiting, at) => waiting.resolve(outcomes[at]!))
    } catch (error) {
      if (batch.length === 1 || options.isTransient(error)) {
        for (const waiting of batch) waiting.reject(error)
        return
      }
      for (const waiting of batch) await settle([waiting])
    }
  }

  const leave = () => {
    scheduled = false
    while (free > 0 && queue.length > 0) {
      free -= 1
      void settle(queue.splice(0, options.mostTogether)).finally(() => {
        free += 1
        leave()
      })
    }
  }

  return (request) =>
    new Promise((resolve, reject) => {
      queue.push({ request, resolve, reject })
      if (scheduled || free === 0) return
      scheduled = true
      setImmediate(leave)
    })
}
