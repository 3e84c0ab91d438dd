import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { expect, test } from 'vitest'
import { startProcessHarness } from '../test/billing-process.ts'
import type { ProcessHarness } from '../test/billing-process.ts'
import { checkoutRefOf, ledgerOf, licencesOf, openCheckout, pay } from '../test/shop.ts'
import { givenVendor } from '../test/vendor.ts'
import type { Vendor } from '../test/vendor.ts'

const customers = 12

/** Makes payments that reach the cap. A third of them is refunded in full, and another third in part. */
async function trade(harness: ProcessHarness, vendor: Vendor): Promise<() => Promise<void>> {
  await harness.billing.setSpendCap({ accountId: vendor.accountId, capMinor: 1000n, currency: 'usd' })
  const sessions = await Promise.all(
    Array.from({ length: customers }, (_, at) =>
      openCheckout(harness, vendor, { externalRef: `cust-${at}` }),
    ),
  )
  return async () => {
    for (const [at, session] of sessions.entries()) {
      await pay(harness, session)
      const charge = checkoutRefOf(session)
      if (at % 3 === 1) await harness.simulator.control('refund', { charge })
      if (at % 3 === 2) await harness.simulator.control('refund', { charge, amount: 900 })
    }
  }
}

function count(items: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items.toSorted()) counts[item] = (counts[item] ?? 0) + 1
  return counts
}

/** Each customer has one licence, each fee and credit is posted once, and each event was sent once. */
async function expectAllSettled(harness: ProcessHarness, vendor: Vendor): Promise<void> {
  const third = customers / 3
  await eventually(
    async () => {
      const licences = await licencesOf(harness, vendor)
      expect(count(licences.map((licence) => licence.status))).toEqual({
        active: third,
        downgraded: third,
        revoked: third,
      })
      expect(new Set(licences.map((licence) => licence.externalRef)).size).toBe(customers)
      expect(count(await ledgerOf(harness, vendor))).toEqual({
        'charge 245': customers,
        'credit -245': third,
      })
      expect(count(harness.events.of(vendor.accountId).map((event) => event.type))).toEqual({
        'licence.created': customers,
        'licence.downgraded': third,
        'licence.revoked': third,
        'payment.succeeded': customers,
        'refund.processed': 2 * third,
        'spend_cap.reached': 1,
      })
    },
    { timeoutMs: 60_000, intervalMs: 200 },
  )
}

/** Calls `act` each time a few more events have been handled. */
async function atEachFew(harness: ProcessHarness, act: () => Promise<void>): Promise<void> {
  for (const many of [1, 10, 30]) {
    await eventually(
      async () => {
        const [row] = await harness.sql<{ handled: number }[]>`
          select count(*)::int as handled from processor_events where handled_at is not null`
        expect(row!.handled).toBeGreaterThanOrEqual(many)
      },
      { timeoutMs: 60_000, intervalMs: 2 },
    )
    await act()
  }
}

test.concurrent('billing does everything once while it is killed repeatedly', async () => {
  await using harness = await startProcessHarness()
  const vendor = await givenVendor(harness)
  const payAll = await trade(harness, vendor)
  const killing = atEachFew(harness, async () => {
    await harness.process.kill()
    await harness.process.start()
  })
  await Promise.all([payAll(), killing])
  await expectAllSettled(harness, vendor)
})

test.concurrent('billing does everything once while licensing is killed repeatedly', async () => {
  await using harness = await startProcessHarness()
  const vendor = await givenVendor(harness)
  const payAll = await trade(harness, vendor)
  const killing = atEachFew(harness, async () => {
    await harness.licensingProcess.kill()
    await harness.licensingProcess.start()
  })
  await Promise.all([payAll(), killing])
  await expectAllSettled(harness, vendor)
})

test.concurrent(
  'billing recovers by itself after PostgreSQL is killed, and does everything once',
  async () => {
    await using postgres = await startOwnPostgres()
    await using harness = await startProcessHarness(postgres.url())
    const vendor = await givenVendor(harness)
    const payAll = await trade(harness, vendor)
    const killing = atEachFew(harness, async () => {
      await postgres.kill()
      await postgres.start()
    })
    await Promise.all([payAll(), killing])
    await expectAllSettled(harness, vendor)
  },
)

test.concurrent('billing works without NATS, and sends its events when NATS is available again', async () => {
  await using harness = await startProcessHarness()
  const vendor = await givenVendor(harness)
  const payAll = await trade(harness, vendor)
  await harness.nats.stop()
  await payAll()
  await eventually(
    async () => {
      const [row] = await harness.sql<{ waiting: number }[]>`
        select count(*)::int as waiting from processor_events where handled_at is null`
      expect(row!.waiting).toBe(0)
      expect(await licencesOf(harness, vendor)).toHaveLength(customers)
    },
    { timeoutMs: 60_000 },
  )
  expect(harness.events.of(vendor.accountId)).toEqual([])
  await harness.nats.start()
  await expectAllSettled(harness, vendor)
})
