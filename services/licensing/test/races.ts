import { ServiceError } from '@licensing/grpc/errors'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { expect } from 'vitest'
import { startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import { deadlocks, raceRounds } from './makers.ts'

export const rounds = Array.from({ length: raceRounds }, (_, round) => round)

/** Hundreds of calls each, on a machine that may be busy. */
export const raceLimit = { testTimeout: 300_000 }

/** Two replicas of the service on one database. */
export interface Replicas extends AsyncDisposable {
  harness: Harness
  other: Harness
  /** One or the other, in turn. */
  either: (place: number) => Harness
}

export async function startReplicas(): Promise<Replicas> {
  const harness = await startHarness()
  const other = { ...harness, ...(await harness.replica()) }
  return {
    harness,
    other,
    either: (place) => (place % 2 === 0 ? harness : other),
    async [Symbol.asyncDispose]() {
      await other[Symbol.asyncDispose]()
      await harness[Symbol.asyncDispose]()
    },
  }
}

/** As a caller makes it: on a busy machine a lock may be held for longer than a call waits for it. */
export async function untilAvailable<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'unavailable')) throw error
    }
  }
}

/** `ok`, or the code of the refusal, of each. */
export const codes = (outcomes: PromiseSettledResult<unknown>[]) =>
  outcomes.map((outcome) =>
    outcome.status === 'fulfilled' ? 'ok' : String((outcome.reason as { code?: unknown }).code),
  )

export const fulfilled = <T>(outcomes: PromiseSettledResult<T>[]): T[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))

export const waitingForLocks = ({ sql }: Harness) => lockWaits(sql)

/** That the lock order has held: no transaction was undone and tried again. */
export async function expectNoDeadlock(harness: Harness): Promise<void> {
  expect(await deadlocks(harness)).toBe(0)
}
