import { drawing, drawn } from '@licensing/test-support/drawn'
import { eventually } from '@licensing/test-support/poll'
import { describe, expect, test } from 'vitest'
import { reconcile } from '../inbox/missed-events.ts'
import { deliver, eventsAt } from '../../test/processor-events.ts'
import { sharedHarness } from '../../test/harness.ts'
import { outcomeOf } from '../../test/outcome.ts'
import { dropEvents, handled, licencesOf, openCheckout, pay } from '../../test/shop.ts'
import { anotherPlan } from '../../test/vendor.ts'
import type { Mode, Vendor } from '../../test/vendor.ts'

const harness = await sharedHarness()

type Listed = Awaited<ReturnType<typeof eventsAt>>[number]

/** The purchases of a customer, oldest first, and which of them were refunded or charged back. */
interface Story {
  bought: Mode[]
  returned: number[]
  by: 'refund' | 'dispute'
}

interface Happened {
  vendor: Vendor
  /** The plan of each purchase. */
  plans: string[]
  /** The events of each purchase. `reversals` has the events of each refund or chargeback. */
  sales: Listed[][]
  reversals: Listed[][]
}

/** Makes a story happen at the processor; none of its events arrives. */
async function happen({ bought, returned, by }: Story): Promise<Happened> {
  const first = await harness.givenVendor()
  await dropEvents(harness, first)
  const usd = { amount: 4900n, currency: 'usd' }
  const subscription = await anotherPlan(harness, first, { ...usd, mode: 'subscription' })
  const seen = new Set<string>()
  const news = async () => {
    const events = (await eventsAt(harness, first)).filter((event) => !seen.has(event.id))
    for (const { id } of events) seen.add(id)
    return events
  }
  const happened: Happened = { vendor: first, plans: [], sales: [], reversals: [] }
  let created = Math.floor(Date.now() / 1000) - 3_000
  const charges: string[] = []
  for (const mode of bought) {
    const vendor = mode === 'payment' ? first : subscription
    const session = await openCheckout(harness, vendor)
    await pay(harness, session, { created: (created += 60) })
    const events = await news()
    charges.push(events.find((event) => event.type === 'charge.succeeded')!.data.object.id)
    happened.plans.push(vendor.planId)
    happened.sales.push(events)
  }
  for (const at of returned) {
    await harness.simulator.control(by, { charge: charges[at]!, created: (created += 60) })
    happened.reversals.push(await news())
  }
  return happened
}

/** Delivers the events in this order, with this pause between two of the groups. */
async function arrive({ vendor }: Happened, groups: Listed[][], pauseMs = 0): Promise<void> {
  for (const [at, group] of groups.entries()) {
    const until = performance.now() + (at === 0 ? 0 : pauseMs)
    await eventually(() => performance.now() >= until, { intervalMs: 1 })
    await Promise.all(group.map((event) => deliver(harness, vendor, event)))
  }
}

async function expectOneLicence({ vendor, plans }: Happened, { returned, by }: Story): Promise<void> {
  await handled(harness, vendor)
  const standing = plans.findLast((_, at) => !returned.includes(at))
  expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'active', planId: standing }])
  const { sent, ledger } = await outcomeOf(harness, vendor)
  expect(sent.filter((type) => type.startsWith('licence.created'))).toHaveLength(1)
  expect(sent.filter((type) => type.startsWith('payment.succeeded'))).toHaveLength(plans.length)
  expect(sent.filter((type) => type.startsWith('refund.processed'))).toHaveLength(returned.length)
  const credits = by === 'refund' ? returned.map(() => 'credit -245') : []
  expect(ledger).toEqual([...plans.map(() => 'charge 245'), ...credits])
}

const stories: Story[] = [
  { bought: ['payment', 'payment'], returned: [0], by: 'refund' },
  { bought: ['payment', 'payment'], returned: [0], by: 'dispute' },
  { bought: ['subscription', 'payment'], returned: [0], by: 'refund' },
  { bought: ['payment', 'subscription'], returned: [0], by: 'refund' },
  { bought: ['payment', 'subscription'], returned: [0], by: 'dispute' },
  { bought: ['payment', 'payment', 'payment'], returned: [0, 1], by: 'refund' },
  { bought: ['payment', 'payment', 'payment'], returned: [2, 0], by: 'refund' },
  { bought: ['payment', 'payment'], returned: [1], by: 'refund' },
]

/** How the processor reports a story. */
const ways: [string, (happened: Happened) => Promise<void>][] = [
  [
    'reconciliation finds all events',
    async ({ vendor }) => {
      const merchant = `stripe:${vendor.connectedAccount}`
      await reconcile(harness.deps, { merchant, reconciled_to: new Date() })
    },
  ],
  ...[0, 20, 150].map((pauseMs): (typeof ways)[number] => [
    `it is reported last first, with ${pauseMs} ms between two of them`,
    (happened) => {
      const { sales, reversals } = happened
      return arrive(happened, [...reversals.toReversed(), ...sales.toReversed()], pauseMs)
    },
  ]),
  ...[0, 150, 1_000].map((pauseMs): (typeof ways)[number] => [
    `it is reported in order after its refunds, with ${pauseMs} ms between two of them`,
    (happened) => {
      const { sales, reversals } = happened
      return arrive(happened, [reversals.flat(), ...sales], pauseMs)
    },
  ]),
]

// Tests each way with some of the stories, and each story with some of the ways.
const cases = ways.flatMap(([way, report]) => stories.map((story) => ({ ...story, way, story, report })))

describe('a customer has one licence, which rests on the valid purchase:', () => {
  test.concurrent.each(drawn(cases, 5))(
    `bought $bought, $by of $returned, and $way (${drawing})`,
    async ({ story, report }) => {
      const happened = await happen(story)
      await report(happened)
      await expectOneLicence(happened, story)
    },
  )

  // The cases run one after the other, because a revocation waits only a short time for the processor's answer.
  test.each(drawn(stories, 2))(
    `bought $bought, $by of $returned, and the events of the valid purchase are lost, but the processor lists them (${drawing})`,
    async (story) => {
      const happened = await happen(story)
      const { sales, reversals } = happened
      const lost = sales.findLastIndex((_sale, at) => !story.returned.includes(at))
      await arrive(happened, [...reversals, ...sales.filter((_sale, at) => at !== lost)])
      await expectOneLicence(happened, story)
    },
  )

  test('the second sale is reported after the revocation was decided, while licensing is unavailable', async () => {
    const story: Story = { bought: ['payment', 'payment'], returned: [0], by: 'refund' }
    const happened = await happen(story)
    const { vendor, sales, reversals } = happened
    await harness.licensingProcess.stop()
    await arrive(happened, [...reversals, sales[0]!], 0)
    const revoked = () =>
      harness.sql`select 1 from purchase_effects where account_id = ${vendor.accountId} and kind = 'refunded'`
    await eventually(async () => expect(await revoked()).toHaveLength(1))
    // Nothing has been sent yet.
    await arrive(happened, [sales[1]!])
    await harness.licensingProcess.start()
    await expectOneLicence(happened, story)
  })
})

test('a processor that does not answer delays a revocation, and does not prevent it', async () => {
  const happened = await happen({ bought: ['payment'], returned: [0], by: 'refund' })
  const { vendor, sales, reversals } = happened
  const account = vendor.connectedAccount
  for (const answer of ['500', 'hang']) {
    await harness.simulator.control('faults', { answer, until_cleared: true, path: '/v1/events', account })
  }
  await arrive(happened, [sales[0]!])
  await handled(harness, vendor)
  const startedMs = performance.now()
  await arrive(happened, [reversals[0]!])
  await eventually(async () =>
    expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'revoked' }]),
  )
  expect(performance.now() - startedMs).toBeLessThan(10_000)
})
