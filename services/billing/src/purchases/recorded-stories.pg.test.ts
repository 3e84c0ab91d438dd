import { expect, test } from 'vitest'
import { deliver } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import type { Outcome } from '../../test/outcome.ts'
import { retell } from '../../test/recorded-stories.ts'
import { handled, openCheckout } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'
import { monthly } from '../../test/subscribed.ts'
import type { VendorOptions } from '../../test/vendor.ts'

const harness = await sharedHarness()

let reports = 0

/** Reports a recorded story, which is not in the processor's own records. */
async function report(
  name: string,
  options: VendorOptions,
  arrange: (events: object[]) => object[],
  eachAlone = false,
): Promise<Outcome> {
  const suffix = `x${(reports += 1)}`
  const vendor = await harness.givenVendor(options)
  const session = await openCheckout(harness, vendor)
  const beginsAt = Math.floor(Date.now() / 1000)
  const events = arrange(retell(name, { vendor, sessionId: session.id, suffix, beginsAt }))
  expect(events.length).toBeGreaterThan(1)
  if (eachAlone) {
    for (const event of events) {
      await deliver(harness, vendor, event)
      await handled(harness, vendor)
    }
  } else {
    await Promise.all(events.map((event) => deliver(harness, vendor, event)))
    await handled(harness, vendor)
  }
  return outcomeOf(harness, vendor)
}

const refundedInParts: Outcome = {
  licences: ['revoked'],
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
}

const pending: Outcome = {
  licences: ['active'],
  ledger: ['charge 245'],
  refunds: ['full_refund 4900 pending'],
  sent: ['licence.created', 'payment.succeeded 4900'],
}

const endedSubscription: Outcome = {
  licences: ['expired'],
  ledger: ['charge 149'],
  refunds: [],
  sent: ['licence.created', 'licence.expired', 'licence.suspended payment_failed', 'payment.succeeded 2980'],
}

test.concurrent.each<[string, string, VendorOptions, Outcome]>([
  ['a purchase refunded in two parts', 'a', {}, refundedInParts],
  ['a delayed payment with a refund that is pending', 'b', {}, pending],
  ['a delayed payment that fails', 'c', {}, { licences: [], ledger: [], refunds: [], sent: [] }],
  ['a subscription whose payments fail until it ends', 's', monthly, endedSubscription],
])(
  'a recorded story ends the same, reported in its order, backwards, or in any order with repeats: %s',
  async (_, name, options, expected) => {
    const inAnyOrder = (seed: number) => (events: object[]) => {
      const next = numbersFrom(seed)
      return shuffled([...events, ...events.filter(() => next(2) === 0)], next)
    }
    const outcomes = await Promise.all([
      report(name, options, (events) => events, true),
      report(name, options, (events) => events.toReversed()),
      ...[1, 2, 3, 4].map((seed) => report(name, options, inAnyOrder(seed))),
    ])
    for (const outcome of outcomes) expect(outcome).toEqual(expected)
  },
)
