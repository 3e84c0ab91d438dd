import { pause, pauseAfter } from '@licensing/process/retry'

const PAUSES = { firstMs: 500, maxMs: 10_000 }
/** A child that ran for this long is not in a crash loop. */
const STABLE_AFTER_MS = 60_000

/** A process that runs and can be started again. */
export interface Child {
  name: string
  /** Resolves when the current process has ended, with its exit code or signal. */
  ended(): Promise<string>
  restart(): Promise<void>
  /** Stops the process gracefully. Does nothing if it is not running. */
  stop(): Promise<void>
}

/**
 * Starts a child again whenever it ends by itself, after a pause that doubles from 0.5 s to 10 s in a crash loop.
 *
 * @param say receives a line when the child ends or cannot be started
 * @returns a function that stops the child permanently
 */
export function keepRunning(child: Child, say: (line: string) => void): () => Promise<void> {
  const stopping = new AbortController()
  const { signal } = stopping
  let restarting: Promise<void> | undefined
  const watch = async () => {
    let ends = 0
    while (!signal.aborted) {
      const since = Date.now()
      const how = await child.ended()
      if (signal.aborted) return
      ends = Date.now() - since > STABLE_AFTER_MS ? 1 : ends + 1
      const pauseMs = pauseAfter(PAUSES, ends)
      say(`${child.name} ended (${how}); starting it again in ${pauseMs / 1000} s`)
      await pause(pauseMs, signal)
      if (signal.aborted) return
      restarting = child.restart().catch((error: unknown) => {
        say(`${child.name} could not be started: ${error instanceof Error ? error.message : String(error)}`)
      })
      await restarting
    }
  }
  const watched = watch()
  return async () => {
    stopping.abort()
    await restarting
    await child.stop()
    await watched
  }
}
