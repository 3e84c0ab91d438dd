import { ServiceError } from '@licensing/grpc/errors'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { expect } from 'vitest'
import { startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import { deadlocks, raceRounds } from './makers.ts'

export const rounds = Array.from({ length: raceRounds }, (_, round) => round)

/** Two replicas of the service on one database. */
interface Replicas extends AsyncDisposable {
  harness: Harness
  other: Harness
  /** Alternates between the replicas. */
  either: (place: number) => Harness
}

export async function startReplicas(): Promise<Replicas> {
  const harness = await startHarness()
  const other = { ...harness, ...(await harness.replica()) }
  return {
    harness,
    other,
    either: (place) => (place % 2 === 0 ? harness : other),
    [Symbol.asyncDispose]: () => harness[Symbol.asyncDispose](),
  }
}

/** Repeats a call that is unavailable: on a busy machine a lock may be held longer than a call waits. */
export async function untilAvailable<T>(call: () => Promise<T>): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof ServiceError && error.code === 'unavailable')) throw error
    }
  }
}

/** `ok` or the error code of each outcome. */
export const codes = (outcomes: PromiseSettledResult<unknown>[]) =>
  outcomes.map((outcome) =>
    outcome.status === 'fulfilled' ? 'ok' : String((outcome.reason as { code?: unknown }).code),
  )

export const fulfilled = <T>(outcomes: PromiseSettledResult<T>[]): T[] =>
  outcomes.flatMap((outcome) => (outcome.status === 'fulfilled' ? [outcome.value] : []))

export const waitingForLocks = ({ sql }: Harness) => lockWaits(sql)

/** Checks the lock order: PostgreSQL has ended no transaction because of a deadlock. */
export async function expectNoDeadlock(harness: Harness): Promise<void> {
  expect(await deadlocks(harness)).toBe(0)
}
