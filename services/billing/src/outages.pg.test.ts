import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { expect, test } from 'vitest'
import { startProcessHouse } from './testing/billing-process.ts'
import type { ProcessHouse } from './testing/billing-process.ts'
import { checkoutRefOf, ledgerOf, licencesOf, openCheckout, pay } from './testing/shop.ts'
import { givenVendor } from './testing/vendor.ts'
import type { Vendor } from './testing/vendor.ts'

const customers = 12

/** Customers pay; of each three one is refunded in full and one in part. The cap is reached on the way. */
async function trade(house: ProcessHouse, vendor: Vendor): Promise<() => Promise<void>> {
  await house.billing.setSpendCap({ accountId: vendor.accountId, capMinor: 1000n, currency: 'usd' })
  const sessions = await Promise.all(
    Array.from({ length: customers }, (_, at) => openCheckout(house, vendor, { externalRef: `cust-${at}` })),
  )
  return async () => {
    for (const [at, session] of sessions.entries()) {
      await pay(house, session)
      const charge = checkoutRefOf(session)
      if (at % 3 === 1) await house.simulator.control('refund', { charge })
      if (at % 3 === 2) await house.simulator.control('refund', { charge, amount: 900 })
    }
  }
}

function count(items: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items.toSorted()) counts[item] = (counts[item] ?? 0) + 1
  return counts
}

/** Each customer has one licence, each fee and credit is posted once, and each thing was told once. */
async function expectAllSettled(house: ProcessHouse, vendor: Vendor): Promise<void> {
  const third = customers / 3
  await eventually(
    async () => {
      const licences = await licencesOf(house, vendor)
      expect(count(licences.map((licence) => licence.status))).toEqual({
        active: third,
        downgraded: third,
        revoked: third,
      })
      expect(new Set(licences.map((licence) => licence.externalRef)).size).toBe(customers)
      expect(count(await ledgerOf(house, vendor))).toEqual({ 'charge 245': customers, 'credit -245': third })
      expect(count(house.events.of(vendor.accountId).map((event) => event.type))).toEqual({
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

/** Something happens whenever so many more events have been handled. */
async function atEachFew(house: ProcessHouse, act: () => Promise<void>): Promise<void> {
  for (const many of [1, 5, 10, 20, 35]) {
    await eventually(
      async () => {
        const [row] = await house.sql<{ handled: number }[]>`
          select count(*)::int as handled from processor_events where handled_at is not null`
        expect(row!.handled).toBeGreaterThanOrEqual(many)
      },
      { timeoutMs: 60_000, intervalMs: 2 },
    )
    await act()
  }
}

test('killed again and again between one step and the next, it does everything once', async () => {
  await using house = await startProcessHouse()
  const vendor = await givenVendor(house)
  const payAll = await trade(house, vendor)
  const killing = atEachFew(house, async () => {
    await house.process.kill()
    await house.process.start()
  })
  await Promise.all([payAll(), killing])
  await expectAllSettled(house, vendor)
}, 180_000)

test('while licensing is killed again and again, it does everything once', async () => {
  await using house = await startProcessHouse()
  const vendor = await givenVendor(house)
  const payAll = await trade(house, vendor)
  const killing = atEachFew(house, async () => {
    await house.licensingProcess.kill()
    await house.licensingProcess.start()
  })
  await Promise.all([payAll(), killing])
  await expectAllSettled(house, vendor)
}, 180_000)

test('with PostgreSQL killed under it, it comes back by itself and does everything once', async () => {
  await using postgres = await startOwnPostgres()
  await using house = await startProcessHouse(postgres.url())
  const vendor = await givenVendor(house)
  const payAll = await trade(house, vendor)
  const killing = atEachFew(house, async () => {
    await postgres.kill()
    await postgres.start()
  })
  await Promise.all([payAll(), killing])
  await expectAllSettled(house, vendor)
}, 180_000)

test('with NATS away, it goes on, and tells when NATS is back', async () => {
  await using house = await startProcessHouse()
  const vendor = await givenVendor(house)
  const payAll = await trade(house, vendor)
  await house.nats.stop()
  await payAll()
  await eventually(
    async () => {
      const [row] = await house.sql<{ waiting: number }[]>`
        select count(*)::int as waiting from processor_events where handled_at is null`
      expect(row!.waiting).toBe(0)
      expect(await licencesOf(house, vendor)).toHaveLength(customers)
    },
    { timeoutMs: 60_000 },
  )
  expect(house.events.of(vendor.accountId)).toEqual([])
  await house.nats.start()
  await expectAllSettled(house, vendor)
}, 180_000)
