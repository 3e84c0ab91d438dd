import { setTimeout as sleep } from 'node:timers/promises'
import type { Outcome } from '../outcome.ts'
import type { StormStack } from '../stack.ts'
import { inflict, type ReceiverAnswers } from './inflict.ts'
import type { Fault } from './schedule.ts'

/** A fault that was inflicted. Times are milliseconds from the start of the storm. */
export interface RunFault extends Fault {
  startedMs: number
  endedMs: number | undefined
  /** The error, if starting or ending the fault failed at first. */
  problem: string | undefined
}

const everything = 'everything'
// Targets that are not links. A fault of the target "everything" affects them too.
const isServer = (target: string) => !target.includes('>')

/** Inflicts all faults, each at its time, and returns when the last has ended. Faults of the same target wait for each other. */
export async function runFaults(
  stack: StormStack,
  faults: Fault[],
  receiverAnswers: ReceiverAnswers,
  report: (run: RunFault) => void,
): Promise<RunFault[]> {
  const startedAt = performance.now()
  const sinceStartMs = () => Math.round(performance.now() - startedAt)
  const tails = new Map<string, Promise<void>>()
  const all: RunFault[] = []
  const one = async (fault: Fault, before: Promise<unknown>) => {
    await before
    const run: RunFault = { ...fault, startedMs: sinceStartMs(), endedMs: undefined, problem: undefined }
    all.push(run)
    report(run)
    const failed = (error: unknown) => {
      run.problem = error instanceof Error ? error.message : String(error)
    }
    const end = await inflict[fault.kind]({ stack, receiverAnswers, fault }).catch(failed)
    await sleep(fault.forMs)
    // If a fault cannot be ended at once, it is tried again: for example, a frozen processor answers no call.
    for (let attempt = 1; end !== undefined && attempt <= 20; attempt += 1) {
      const problem = await end().then(
        () => undefined,
        (error: unknown) => (failed(error), error),
      )
      if (problem === undefined) break
      await sleep(1_000)
    }
    run.endedMs = sinceStartMs()
  }
  for (const fault of faults) {
    await sleep(Math.max(0, fault.atMs - sinceStartMs()))
    const others = [...tails].filter(
      ([target]) =>
        target === fault.target || target === everything || (fault.target === everything && isServer(target)),
    )
    const before = Promise.all(
      others.filter(([target]) => target !== everything || isServer(fault.target)).map(([, tail]) => tail),
    )
    tails.set(fault.target, one(fault, before))
  }
  await Promise.all(tails.values())
  return all
}

/** Restarts every process that ended by itself, as an operator's supervisor does, until it is stopped. */
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

const maxMs = 60_000

/** Waits until /readyz of every process answers 200, and measures the time from now. */
export async function whenReady(stack: StormStack): Promise<Outcome['ready']> {
  const startedAt = performance.now()
  return Promise.all(
    [...stack.members.values()].map(async ({ name, operationsUrl }) => {
      while (performance.now() - startedAt < maxMs) {
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
