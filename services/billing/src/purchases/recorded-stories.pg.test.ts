import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliver } from '../../test/charge-story.ts'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import type { VendorOptions } from '../../test/vendor.ts'
import { outcomeOf, quiet } from '../../test/outcome.ts'
import type { Outcome } from '../../test/outcome.ts'
import { retell } from '../../test/recorded-stories.ts'
import { openCheckout, handled } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

let reports = 0

/** Reports a recorded story, which is not in the processor's own records. @returns a function that reads its outcome */
async function report(
  name: string,
  options: VendorOptions,
  arrange: (events: object[]) => object[],
  eachAlone: boolean,
): Promise<() => Promise<Outcome>> {
  const suffix = `x${(reports += 1)}`
  const vendor = await harness.givenVendor(options)
  const session = await openCheckout(harness, vendor)
  const beginsAt = Math.floor(Date.now() / 1000)
  const retelling = { vendor, sessionId: session.id, suffix, beginsAt }
  const events = arrange(retell(name, retelling))
  expect(events.length).toBeGreaterThan(1)
  if (eachAlone) {
    for (const event of events) {
      await deliver(harness, vendor, event)
      await quiet(harness, vendor)
    }
  } else {
    await Promise.all(events.map((event) => deliver(harness, vendor, event)))
    await quiet(harness, vendor)
  }
  return () => outcomeOf(harness, vendor)
}

const subscription: VendorOptions = { price: { amount: 2980n, currency: 'jpy', mode: 'subscription' } }

describe('a recorded story ends the same, reported in its order, backwards, or in any order with repeats:', () => {
  test.each<[string, string, VendorOptions, Outcome]>([
    [
      'a purchase refunded in two parts',
      'a',
      {},
      {
        licences: ['revoked '],
        ledger: ['charge 245', 'credit -245'],
        refunds: ['full_refund 3000 succeeded', 'partial_refund 1900 succeeded'],
        sent: [
          'licence.created',
          'licence.downgraded',
          'licence.revoked',
          'payment.succeeded 4900',
          'refund.processed full_refund 3000',
          'refund.processed partial_refund 1900',
        ],
      },
    ],
    [
      'a delayed payment with a refund that is pending',
      'b',
      {},
      {
        licences: ['active '],
        ledger: ['charge 245'],
        refunds: ['full_refund 4900 pending'],
        sent: ['licence.created', 'payment.succeeded 4900'],
      },
    ],
    ['a delayed payment that fails', 'c', {}, { licences: [], ledger: [], refunds: [], sent: [] }],
    [
      'a subscription whose payments fail until it ends',
      's',
      subscription,
      {
        licences: ['expired '],
        ledger: ['charge 149'],
        refunds: [],
        sent: [
          'licence.created',
          'licence.expired',
          'licence.suspended payment_failed',
          'payment.succeeded 2980',
        ],
      },
    ],
  ])(
    '%s',
    async (_, name, options, expected) => {
      const orders: ((events: object[]) => object[])[] = [
        (events) => events.toReversed(),
        ...Array.from({ length: 6 }, (_unused, seed) => (events: object[]) => {
          const next = numbersFrom(seed + 1)
          return shuffled([...events, ...events.filter(() => next(2) === 0)], next)
        }),
      ]
      const tellings = await Promise.all([
        report(name, options, (events) => events, true),
        ...orders.map((arrange) => report(name, options, arrange, false)),
      ])
      await handled(harness)
      for (const outcome of tellings) expect(await outcome()).toEqual(expected)
    },
    120_000,
  )
})

test('refunds that are reported only by the charge are understood', async () => {
  const byCharge = (events: object[]) =>
    events.filter((event) => !('type' in event && String(event.type).startsWith('refund.')))
  const outcome = await report('a', {}, byCharge, true)
  await handled(harness)
  expect(await outcome()).toEqual({
    licences: ['revoked '],
    ledger: ['charge 245', 'credit -245'],
    refunds: ['full_refund 3000 succeeded', 'partial_refund 1900 succeeded'],
    sent: [
      'licence.created',
      'licence.downgraded',
      'licence.revoked',
      'payment.succeeded 4900',
      'refund.processed full_refund 3000',
      'refund.processed partial_refund 1900',
    ],
  })
})
