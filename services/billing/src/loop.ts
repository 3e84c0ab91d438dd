import { Outage } from '@licensing/database/outage'
import type { Logger } from '@licensing/process/log'

export interface Loop {
  /** There may be something to do. */
  wake(): void
  /** Ends after the round in hand. */
  stop(): Promise<void>
}

/**
 * Background work in rounds, for as long as the process runs. `round` answers how long to pause, in milliseconds; a
 * round that fails is logged, during an outage of the database once, and tried again after `retryMs`.
 */
export function startLoop(
  name: string,
  log: Logger,
  round: (signal: AbortSignal) => Promise<number>,
  retryMs = 1_000,
): Loop {
  const stopped = new AbortController()
  let woken = false
  let resume: () => void = () => {}

  const pause = (ms: number) =>
    new Promise<void>((resolve) => {
      if (woken || stopped.signal.aborted) return resolve()
      const timer = setTimeout(resolve, ms)
      resume = () => {
        clearTimeout(timer)
        resolve()
      }
    })

  const outage = new Outage()
  const run = async () => {
    while (!stopped.signal.aborted) {
      woken = false
      try {
        const pauseMs = await round(stopped.signal)
        outage.over()
        await pause(pauseMs)
      } catch (error) {
        if (outage.isNews(error)) log.warn({ err: error }, `${name}: trying again`)
        woken = false
        await pause(retryMs)
      }
    }
  }
  const running = run()

  return {
    wake() {
      woken = true
      resume()
    },
    async stop() {
      stopped.abort()
      resume()
      await running
    },
  }
}
