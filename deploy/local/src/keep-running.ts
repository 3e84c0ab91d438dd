import { setTimeout as sleep } from 'node:timers/promises'

const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 10_000
/** Who ran for so long is not in a loop of crashes. */
const SOUND_AFTER_MS = 60_000

/** A process that runs and can be started again. */
export interface Child {
  name: string
  /** Settles when the process that runs now has ended, with what ended it. */
  ended(): Promise<string>
  restart(): Promise<void>
  /** Stops it in order; does nothing when it does not run. */
  stop(): Promise<void>
}

/**
 * Starts a child again whenever it ends by itself, after a pause that doubles from 0.5 s to 10 s while it keeps
 * ending.
 *
 * @param say receives a line about what happens
 * @returns how to stop it permanently
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
      if (Date.now() - since > SOUND_AFTER_MS) pauseMs = FIRST_PAUSE_MS
      say(`${child.name} ended (${how}); starting it again in ${pauseMs / 1000} s`)
      await sleep(pauseMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) return
      pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS)
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
