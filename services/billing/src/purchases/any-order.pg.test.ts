import { drawing, isFull } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { sample } from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startProcessHarness } from '../../test/billing-process.ts'
import type { ProcessHarness } from '../../test/billing-process.ts'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { chargeStories, customerStories, endOf, happenTo } from '../../test/customer-story.ts'
import type { CustomerStory } from '../../test/customer-story.ts'
import { handled } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'
import { givenVendor } from '../../test/vendor.ts'

const seed = Number(process.env['TEST_SEED'] ?? Date.now() % 100_000)
const stories = [
  ...sample(customerStories, { numRuns: isFull ? 60 : 2, seed }),
  ...sample(chargeStories, { numRuns: isFull ? 20 : 2, seed }),
]

let harness: ProcessHarness
beforeAll(async () => {
  harness = await startProcessHarness(undefined, 3_600)
  await harness.simulator.control('delivery-rules', { action: 'drop' })
})
afterAll(() => harness[Symbol.asyncDispose]())

/** Lets billing handle each event before the next step of the story. */
async function asItHappens(story: CustomerStory): Promise<unknown> {
  const vendor = await givenVendor(harness)
  const seen = new Set<string>()
  await happenTo(harness, vendor, story, async () => {
    const news = (await eventsAt(harness, vendor)).filter(({ id }) => !seen.has(id))
    for (const event of news) {
      await deliver(harness, vendor, event)
      seen.add(event.id)
    }
    await handled(harness, vendor)
  })
  return endOf(harness, vendor, story)
}

/** Delivers an event again until it is accepted, as the processor does. */
async function deliverAtLast(vendor: Parameters<typeof deliver>[1], event: object): Promise<void> {
  await eventually(() => deliver(harness, vendor, event), { timeoutMs: 60_000, intervalMs: 50 })
}

/** Everything happens before the first event arrives. The events then arrive in any order, some twice, some after a pause. */
async function afterwards(story: CustomerStory): Promise<() => Promise<() => Promise<unknown>>> {
  const vendor = await givenVendor(harness)
  await happenTo(harness, vendor, story, () => Promise.resolve())
  return async () => {
    const next = numbersFrom(story.seed)
    const once = await eventsAt(harness, vendor)
    for (const event of shuffled([...once, ...once.filter(() => next(2) === 0)], next)) {
      await deliverAtLast(vendor, event)
      if (next(5) === 0) await handled(harness, vendor)
    }
    return async () => {
      await handled(harness, vendor)
      return endOf(harness, vendor, story)
    }
  }
}

test(`a customer’s purchases end the same in any order of events, even if billing is killed in between (${drawing})`, async () => {
  const expected = await Promise.all(stories.map(asItHappens))
  const arriving = await Promise.all(stories.map(afterwards))
  let arrived = false
  const killing = (async () => {
    while (!arrived) {
      await harness.process.kill()
      await harness.process.start()
      const until = performance.now() + 2_000
      await eventually(() => arrived || performance.now() > until, { timeoutMs: 10_000 })
    }
  })()
  const handling = await Promise.all(arriving.map((arrive) => arrive())).finally(() => (arrived = true))
  await killing
  const ends = await Promise.all(handling.map((handle) => handle()))
  for (const [at, story] of stories.entries()) {
    expect(ends[at], JSON.stringify(story)).toEqual(expected[at])
  }
}, 900_000)
