import type { StormStack } from '../stack/storm-stack.ts'
import type { Outcome } from '../outcome.ts'
import { setTimeout as sleep } from 'node:timers/promises'

/** Starts whatever ended by itself again, as an operator's supervisor does, until it is stopped. */
export function supervise(stack: StormStack): { crashes: Outcome['crashes']; stop(): Promise<void> } {
  const crashes: Outcome['crashes'] = []
  const state = { running: true }
  const watch = async () => {
    while (state.running) {
      for (const member of stack.members.values()) {
        if (!member.wanted || member.running()) continue
        crashes.push({ process: member.name, at: Date.now() })
        await member.start()
      }
      await sleep(300)
    }
  }
  const watching = watch()
  return {
    crashes,
    stop: async () => {
      state.running = false
      await watching
    },
  }
}

const mostMs = 60_000

/** Waits for /readyz of every process, from now on. */
export async function whenReady(stack: StormStack): Promise<Outcome['ready']> {
  const startedAt = performance.now()
  return Promise.all(
    [...stack.members.values()].map(async ({ name, operationsUrl }) => {
      while (performance.now() - startedAt < mostMs) {
        const response = await fetch(`${operationsUrl}/readyz`, { signal: AbortSignal.timeout(5_000) }).catch(
          () => undefined,
        )
        await response?.arrayBuffer().catch(() => undefined)
        if (response?.status === 200)
          return { process: name, afterMs: Math.round(performance.now() - startedAt) }
        await sleep(50)
      }
      return { process: name, afterMs: null }
    }),
  )
}
