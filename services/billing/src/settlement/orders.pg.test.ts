import { assert, asyncProperty, array, integer, record } from 'fast-check'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver, eventsAt, happen, moves, pace } from '../testing/charge-story.ts'
import type { Move } from '../testing/charge-story.ts'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import { outcomeOf, quiet } from '../testing/outcome.ts'
import type { Outcome } from '../testing/outcome.ts'
import { openCheckout } from '../testing/shop.ts'
import { numbersFrom, shuffled } from '../testing/shuffle.ts'
import { startSilentProcessor } from '../testing/silent-processor.ts'
import type { SilentProcessor } from '../testing/silent-processor.ts'

type Story = { moves: Move[]; pace: number; seed: number }

const story = record({ moves, pace, seed: integer({ min: 1, max: 2 ** 30 }) })

/** Each event is handled before the next thing happens. */
async function asItHappens(house: Harness, told: Story): Promise<Outcome> {
  const vendor = await house.givenVendor()
  const session = await openCheckout(house, vendor)
  let seen = 0
  await happen(house, session, told, async () => {
    const events = await eventsAt(house, vendor)
    for (const event of events.slice(seen)) await deliver(house, vendor, event)
    seen = events.length
    await quiet(house, vendor)
  })
  return outcomeOf(house, vendor)
}

/** All has happened before the first event arrives; then they come in any order, some of them twice. */
async function afterwards(house: Harness, told: Story, atOnce: boolean): Promise<Outcome> {
  const vendor = await house.givenVendor()
  const session = await openCheckout(house, vendor)
  await happen(house, session, told, () => Promise.resolve())
  const next = numbersFrom(told.seed)
  const once = await eventsAt(house, vendor)
  const events = shuffled([...once, ...once.filter(() => next(2) === 0)], next)
  if (atOnce) await Promise.all(events.map((event) => deliver(house, vendor, event)))
  else for (const event of events) await deliver(house, vendor, event)
  await quiet(house, vendor)
  return outcomeOf(house, vendor)
}

describe('the licence, the ledger and the events end the same in whatever order the processor’s events come', () => {
  let house: Harness
  let silent: SilentProcessor
  let silentHouse: Harness
  beforeAll(async () => {
    house = await startHarness()
    silent = await startSilentProcessor()
    silentHouse = await startHarness({
      apiBase: (simulator) => {
        silent.standInFrontOf(simulator.url)
        return silent.url
      },
    })
    for (const each of [house, silentHouse]) {
      await each.simulator.control('webhook', { enabled_events: ['none'] }).catch(() => undefined)
      await each.simulator.control('delivery-rules', { action: 'drop' })
    }
  })
  afterAll(async () => {
    await house[Symbol.asyncDispose]()
    await silentHouse[Symbol.asyncDispose]()
    await silent[Symbol.asyncDispose]()
  })

  test('with the processor’s records to compare with, and without', async () => {
    await assert(
      asyncProperty(array(story, { minLength: 4, maxLength: 4 }), async (stories) => {
        await Promise.all(
          stories.map(async (told) => {
            const outcomes = await Promise.all([
              asItHappens(house, told),
              afterwards(house, told, told.seed % 2 === 0),
              afterwards(silentHouse, told, true),
            ])
            const [expected, ...others] = outcomes
            for (const other of others)
              expect({ story: told, ...other }).toEqual({ story: told, ...expected })
          }),
        )
      }),
      { numRuns: 4, endOnFailure: true },
    )
  }, 300_000)
})
