import { assert, asyncProperty } from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import { calls } from './model-calls.ts'
import { startRun } from './model-run.ts'

// How many sequences are tried; each is some fifty calls.
const numRuns = Number(process.env['MODEL_RUNS'] ?? 25)
// On a busy machine it tries fewer. With MODEL_SHRINK it looks for the shortest sequence that fails.
const mostSeconds = Number(process.env['MODEL_SECONDS'] ?? 120)

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

test(
  'any sequence of calls ends as the written rules have it: answers, states, counts and events',
  { timeout: (mostSeconds + 60) * 1_000 },
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
        interruptAfterTimeLimit: mostSeconds * 1_000,
      }),
    ).resolves.toBeUndefined()
  },
)
