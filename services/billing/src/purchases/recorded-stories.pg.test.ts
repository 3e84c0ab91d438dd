import { drawing, drawn } from '@licensing/test-support/drawn'
import { expect, test } from 'vitest'
import { deliver } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import type { Outcome } from '../../test/outcome.ts'
import { retell, retellShop } from '../../test/recorded-stories.ts'
import { handled, openCheckout } from '../../test/shop.ts'
import { numbersFrom, shuffled } from '../../test/shuffle.ts'
import { monthly } from '../../test/subscribed.ts'
import type { VendorOptions } from '../../test/vendor.ts'

const harness = await sharedHarness()

let reports = 0

type Step = () => Promise<unknown>
interface Telling {
  name: string
  options: VendorOptions
  /** Whether the customer has also bought in another shop, before the story. */
  inShop: boolean
}

/** Reports a recorded story, which is not in the processor's own records. */
async function report(
  { name, options, inShop }: Telling,
  arrange: (steps: Step[]) => Step[],
  eachAlone = false,
): Promise<Outcome> {
  const suffix = `x${(reports += 1)}`
  const vendor = await harness.givenVendor(options)
  const session = await openCheckout(harness, vendor)
  const beginsAt = Math.floor(Date.now() / 1000)
  const events = retell(name, { vendor, sessionId: session.id, suffix, beginsAt })
  expect(events.length).toBeGreaterThan(1)
  const { externalRef } = session
  const steps = arrange([
    ...(inShop ? retellShop(harness, { vendor, externalRef, beginsAt }) : []),
    ...events.map((event) => () => deliver(harness, vendor, event)),
  ])
  if (eachAlone) {
    for (const step of steps) {
      await step()
      await handled(harness, vendor)
    }
  } else {
    await Promise.all(steps.map((step) => step()))
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

const nothing: Outcome = { licences: [], ledger: [], refunds: [], sent: [] }

/**
 * The outcome if the customer has also bought in the other shop: that purchase takes over when the later one falls. The events
 * about the licence on the way there depend on the order of the reports.
 */
const withShop = (outcome: Outcome): Outcome => ({
  ...outcome,
  licences: ['active'],
  refunds: [...outcome.refunds, 'partial_refund 500 succeeded'].toSorted(),
  sent: [...withoutLicences(outcome.sent), 'refund.processed partial_refund 500'].toSorted(),
})

const withoutLicences = (sent: string[]) => sent.filter((event) => !event.startsWith('licence.'))

const stories = [
  ['a purchase refunded in two parts', 'a', {}, refundedInParts] as const,
  ['a delayed payment with a refund that is pending', 'b', {}, pending] as const,
  ['a delayed payment that fails', 'c', {}, nothing] as const,
  ['a subscription whose payments fail until it ends', 's', monthly, endedSubscription] as const,
].flatMap(([title, name, options, outcome]): [string, Telling, Outcome][] => [
  [title, { name, options, inShop: false }, outcome],
  [`${title}, after a purchase in another shop`, { name, options, inShop: true }, withShop(outcome)],
])

test.concurrent.each(drawn(stories, 3))(
  `a recorded story ends the same, reported in its order, backwards, or in any order with repeats: %s (${drawing})`,
  async (_, telling, expected) => {
    const inAnyOrder = (seed: number) => (steps: Step[]) => {
      const next = numbersFrom(seed)
      return shuffled([...steps, ...steps.filter(() => next(2) === 0)], next)
    }
    const outcomes = await Promise.all([
      report(telling, (steps) => steps, true),
      report(telling, (steps) => steps.toReversed()),
      ...(telling.inShop ? [1] : [1, 2, 3, 4]).map((seed) => report(telling, inAnyOrder(seed))),
    ])
    for (const outcome of outcomes) {
      const sent = telling.inShop ? withoutLicences(outcome.sent) : outcome.sent
      expect({ ...outcome, sent }).toEqual(expected)
    }
  },
)
