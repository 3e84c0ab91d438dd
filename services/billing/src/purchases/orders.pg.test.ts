import { drawing, isFull } from '@licensing/test-support/drawn'
import { assert, asyncProperty, array, integer, record } from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver, eventsAt, happen, moves, pace } from '../../test/charge-story.ts'
import type { Move } from '../../test/charge-story.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { outcomeOf, quiet } from '../../test/outcome.ts'
import type { Outcome } from '../../test/outcome.ts'
import { openCheckout } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'
import { startSilentProcessor } from '../../test/silent-processor.ts'
import type { SilentProcessor } from '../../test/silent-processor.ts'

type Story = { moves: Move[]; pace: number; seed: number }

const story = record({ moves, pace, seed: integer({ min: 1, max: 2 ** 30 }) })

/** Lets billing handle each event before the next step of the story. */
async function asItHappens(harness: Harness, story: Story): Promise<Outcome> {
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  let seen = 0
  await happen(harness, session, story, async () => {
    const events = await eventsAt(harness, vendor)
    for (const event of events.slice(seen)) await deliver(harness, vendor, event)
    seen = events.length
    await quiet(harness, vendor)
  })
  return outcomeOf(harness, vendor)
}

/** Everything happens before the first event arrives. The events then arrive in any order, some of them twice. */
async function afterwards(harness: Harness, story: Story, atOnce: boolean): Promise<Outcome> {
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  await happen(harness, session, story, () => Promise.resolve())
  const next = numbersFrom(story.seed)
  const once = await eventsAt(harness, vendor)
  const events = shuffled([...once, ...once.filter(() => next(2) === 0)], next)
  if (atOnce) await Promise.all(events.map((event) => deliver(harness, vendor, event)))
  else for (const event of events) await deliver(harness, vendor, event)
  await quiet(harness, vendor)
  return outcomeOf(harness, vendor)
}

describe('the licence, the ledger and the events end the same in any order of the processor’s events', () => {
  let harness: Harness
  let silent: SilentProcessor
  let silentHarness: Harness
  beforeAll(async () => {
    harness = await startHarness()
    silent = await startSilentProcessor()
    silentHarness = await startHarness({
      apiBase: (simulator) => {
        silent.standInFrontOf(simulator.url)
        return silent.url
      },
    })
    for (const each of [harness, silentHarness]) {
      await each.simulator.control('webhook', { enabled_events: ['none'] }).catch(() => undefined)
      await each.simulator.control('delivery-rules', { action: 'drop' })
    }
  })
  afterAll(async () => {
    await harness[Symbol.asyncDispose]()
    await silentHarness[Symbol.asyncDispose]()
    await silent[Symbol.asyncDispose]()
  })

  test(`with the processor’s records to compare with, and without (${drawing})`, async () => {
    await assert(
      asyncProperty(array(story, { minLength: 4, maxLength: 4 }), async (stories) => {
        await Promise.all(
          stories.map(async (story) => {
            const outcomes = await Promise.all([
              asItHappens(harness, story),
              afterwards(harness, story, story.seed % 2 === 0),
              afterwards(silentHarness, story, true),
            ])
            const [expected, ...others] = outcomes
            for (const other of others)
              expect({ story: story, ...other }).toEqual({ story: story, ...expected })
          }),
        )
      }),
      { numRuns: isFull ? 4 : 1, endOnFailure: true },
    )
  }, 900_000)
})
