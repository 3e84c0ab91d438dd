import { failWrites } from '@licensing/test-support/failing-writes'
import { eventually } from '@licensing/test-support/poll'
import { startOwnPostgres } from '@licensing/test-support/postgres'
import { expect, test } from 'vitest'
import { startProcessHarness } from '../test/billing-process.ts'
import { sharedHarness } from '../test/harness.ts'
import { outcomeOf } from '../test/outcome.ts'
import { checkoutRefOf, licencesOf, openCheckouts, pay } from '../test/shop.ts'
import { givenVendor } from '../test/vendor.ts'

const customers = 12

function count(items: string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const item of items) counts[item] = (counts[item] ?? 0) + 1
  return counts
}

// The storm (`npm run storm`) injects these faults, and others, at random.
test('billing does everything once while it, licensing and PostgreSQL are killed, and without NATS; it sends its events when NATS is available again', async () => {
  await using postgres = await startOwnPostgres()
  await using harness = await startProcessHarness(postgres.url())
  const vendor = await givenVendor(harness)
  await harness.billing.setSpendCap({ accountId: vendor.accountId, capMinor: 1000n, currency: 'usd' })
  const sessions = await openCheckouts(harness, vendor, customers)
  await harness.nats.stop()

  // A third of the payments is refunded in full, and another third in part.
  const trade = async () => {
    for (const [at, session] of sessions.entries()) {
      await pay(harness, session)
      const charge = checkoutRefOf(session)
      if (at % 3 === 1) await harness.simulator.control('refund', { charge })
      if (at % 3 === 2) await harness.simulator.control('refund', { charge, amount: 900 })
    }
  }
  const killing = async () => {
    const servers = [harness.process, harness.licensingProcess, postgres]
    for (const [at, server] of servers.entries()) {
      await eventually(
        async () => {
          const [row] = await harness.sql<{ handled: number }[]>`
            select count(*)::int as handled from processor_events where handled_at is not null`
          expect(row!.handled).toBeGreaterThan(at * 10)
        },
        { intervalMs: 2 },
      )
      await server.kill()
      await server.start()
    }
  }
  await Promise.all([trade(), killing()])
  await eventually(async () => {
    const [row] = await harness.sql<{ waiting: number }[]>`
      select count(*)::int as waiting from processor_events where handled_at is null`
    expect(row!.waiting).toBe(0)
    expect(await licencesOf(harness, vendor)).toHaveLength(customers)
  })
  expect(harness.events.of(vendor.accountId)).toEqual([])
  await harness.nats.start()

  // Each customer has one licence, each fee and credit is posted once, and each event was sent once.
  const third = customers / 3
  await eventually(async () => {
    const { licences, ledger } = await outcomeOf(harness, vendor)
    expect(count(licences)).toEqual({ active: third, downgraded: third, revoked: third })
    expect(count(ledger)).toEqual({ 'charge 245': customers, 'credit -245': third })
    expect(count(harness.events.of(vendor.accountId).map((event) => event.type))).toEqual({
      'licence.created': customers,
      'licence.downgraded': third,
      'licence.revoked': third,
      'payment.succeeded': customers,
      'refund.processed': 2 * third,
      'spend_cap.reached': 1,
    })
  })
  const references = (await licencesOf(harness, vendor)).map(({ externalRef }) => externalRef)
  expect(new Set(references).size).toBe(customers)
})

test.each(['facts', 'purchase_effects', 'payments'])(
  'on a full disk, which refuses rows of %s, a payment waits and none of its events counts a failure',
  async (table) => {
    const harness = await sharedHarness()
    const vendor = await harness.givenVendor()
    const [session] = await openCheckouts(harness, vendor, 1)
    const disk = await failWrites(harness.sql, table, '53100')
    try {
      await pay(harness, session!)
      await eventually(async () => expect(await disk.refused()).toBeGreaterThan(3))
      const failed = await harness.sql`
        select 1 from processor_events
        where merchant = ${`stripe:${vendor.connectedAccount}`} and (attempts > 0 or dead_lettered)`
      expect(failed).toHaveLength(0)
    } finally {
      await disk.end()
    }
    await eventually(async () => expect(await licencesOf(harness, vendor)).toHaveLength(1))
  },
)
