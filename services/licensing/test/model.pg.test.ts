import { isFull } from '@licensing/test-support/drawn'
import { assert, asyncProperty } from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import { calls } from './model-calls.ts'
import { startRun } from './model-run.ts'

// The number of sequences; each has about fifty calls.
const numRuns = Number(process.env['MODEL_RUNS'] ?? (isFull ? 25 : 10))
// A busy machine runs fewer sequences. With MODEL_SHRINK it searches for the shortest failing sequence.
const maxSeconds = Number(process.env['MODEL_SECONDS'] ?? 120)

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test(
  'after any sequence of calls, answers, states, counts and events follow the written rules',
  { timeout: (maxSeconds + 60) * 1_000 },
  async () => {
    const property = asyncProperty(calls, async (sequence) => {
      const run = await startRun(harness)
      for (const call of sequence) await run.step(call)
      await run.compareCounts()
    })
    await expect(
      assert(property, {
        numRuns,
        endOnFailure: !process.env['MODEL_SHRINK'],
        interruptAfterTimeLimit: maxSeconds * 1_000,
      }),
    ).resolves.toBeUndefined()
  },
)
