import { drawing, isFull } from '@licensing/test-support/drawn'
import { assert, asyncProperty, array } from 'fast-check'
import { expect, test } from 'vitest'
import { chargeStories, happenTo } from '../../test/customer-story.ts'
import type { CustomerStory } from '../../test/customer-story.ts'
import { sharedHarness, startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import type { Outcome } from '../../test/outcome.ts'
import { dropEvents, handled } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'
import type { Vendor } from '../../test/vendor.ts'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { startSilentProcessor } from '../../test/processor-proxy.ts'

const begins = Math.floor(Date.now() / 1000) - 60 * 86_400

async function givenVendor(harness: Harness): Promise<Vendor> {
  const vendor = await harness.givenVendor()
  await dropEvents(harness, vendor)
  return vendor
}

/** Lets billing handle each event before the next step of the story. */
async function asItHappens(harness: Harness, story: CustomerStory): Promise<Outcome> {
  const vendor = await givenVendor(harness)
  let seen = 0
  await happenTo(harness, vendor, story, begins, async () => {
    const events = await eventsAt(harness, vendor)
    for (const event of events.slice(seen)) await deliver(harness, vendor, event)
    seen = events.length
    await handled(harness, vendor)
  })
  return outcomeOf(harness, vendor)
}

/** Everything happens before the first event arrives. The events then arrive in any order, some of them twice. */
async function afterwards(harness: Harness, story: CustomerStory, atOnce: boolean): Promise<Outcome> {
  const vendor = await givenVendor(harness)
  await happenTo(harness, vendor, story, begins, () => Promise.resolve())
  const next = numbersFrom(story.seed)
  const once = await eventsAt(harness, vendor)
  const events = shuffled([...once, ...once.filter(() => next(2) === 0)], next)
  if (atOnce) await Promise.all(events.map((event) => deliver(harness, vendor, event)))
  else for (const event of events) await deliver(harness, vendor, event)
  await handled(harness, vendor)
  return outcomeOf(harness, vendor)
}

test(`the licence, the ledger and the events end the same in any order of the processor’s events, with its records to compare with, and without (${drawing})`, async () => {
  const harness = await sharedHarness()
  await using silent = await startSilentProcessor()
  await using silentHarness = await startHarness(silent)
  await assert(
    asyncProperty(array(chargeStories, { minLength: 4, maxLength: 4 }), async (stories) => {
      await Promise.all(
        stories.map(async (story) => {
          const outcomes = await Promise.all([
            asItHappens(harness, story),
            afterwards(harness, story, story.seed % 2 === 0),
            afterwards(silentHarness, story, true),
          ])
          const [expected, ...others] = outcomes
          for (const other of others) expect({ story, ...other }).toEqual({ story, ...expected })
        }),
      )
    }),
    { numRuns: isFull ? 4 : 1, endOnFailure: true },
  )
}, 900_000)
