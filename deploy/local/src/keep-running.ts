import { setTimeout as sleep } from 'node:timers/promises'

const FIRST_PAUSE_MS = 500
const MAX_PAUSE_MS = 10_000
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
    let pauseMs = FIRST_PAUSE_MS
    while (!signal.aborted) {
      const since = Date.now()
      const how = await child.ended()
      if (signal.aborted) return
      if (Date.now() - since > STABLE_AFTER_MS) pauseMs = FIRST_PAUSE_MS
      say(`${child.name} ended (${how}); starting it again in ${pauseMs / 1000} s`)
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)
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
