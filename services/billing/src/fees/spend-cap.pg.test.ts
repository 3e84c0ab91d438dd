import { awaitTurn } from '@licensing/test-support/turn-of-day'
import { describe, expect, test } from 'vitest'
import { sharedHarness } from '../../test/harness.ts'
import { feesOf, givenSold, handled, openCheckout, openCheckouts, pay, statusOf } from '../../test/shop.ts'
import type { Vendor } from '../../test/vendor.ts'
import { periodOf } from './fee.ts'
import { reachZeroCaps } from './spend-cap.ts'

const harness = await sharedHarness()

await awaitTurn('day')
const period = periodOf(new Date())

const cap = (vendor: Vendor, capMinor: bigint | undefined, currency = 'usd') =>
  harness.billing.setSpendCap({ accountId: vendor.accountId, capMinor, currency })
const capStatus = ({ accountId }: Vendor) => harness.billing.getSpendCap({ accountId })
const expectPaused = (vendor: Vendor) =>
  expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'spend_cap_reached' })

/** The events that reported a reached cap, and the applications that they are for. */
async function reached(vendor: Vendor) {
  await handled(harness, vendor)
  const type = 'spend_cap.reached'
  const of = harness.events.raw(vendor.accountId).filter(({ payload }) => payload.case === 'spendCapReached')
  return {
    events: harness.events.of(vendor.accountId).filter((event) => event.type === type),
    applications: of.map(({ applicationId }) => applicationId),
  }
}

describe('the spend cap', () => {
  test('is not set at first', async () => {
    const status = await capStatus(await harness.givenVendor())
    expect(status).toMatchObject({ period, spentMinor: 0n, paused: false })
    expect(status.capMinor).toBeUndefined()
  })

  test('pauses checkouts when a charge reaches it, and is reported once', async () => {
    const vendor = await harness.givenVendor()
    await cap(vendor, 490n)
    await givenSold(harness, vendor)
    expect(await capStatus(vendor)).toMatchObject({ spentMinor: 245n, paused: false })
    const open = await openCheckout(harness, vendor)
    await givenSold(harness, vendor)
    const paused = { capMinor: 490n, spentMinor: 490n, currency: 'usd', paused: true }
    expect(await capStatus(vendor)).toMatchObject({ ...paused, reachedAt: expect.anything() })
    await expectPaused(vendor)
    // A customer who has paid gets a licence.
    await pay(harness, open)
    const { events } = await reached(vendor)
    expect(await statusOf(harness, vendor, open.id)).toBe('provisioned')
    expect(await capStatus(vendor)).toMatchObject({ spentMinor: 735n })
    expect(events).toEqual([{ type: 'spend_cap.reached', period, cap_minor: 490, spent_minor: 490 }])
  })

  test('stops pausing when it is removed or raised above the spent amount, and is not reported again', async () => {
    const vendor = await harness.givenVendor()
    await cap(vendor, 245n)
    await givenSold(harness, vendor)
    expect(await cap(vendor, 245n)).toMatchObject({ paused: true })
    expect(await cap(vendor, 246n)).toMatchObject({ paused: false })
    await givenSold(harness, vendor)
    expect(await capStatus(vendor)).toMatchObject({ paused: true, spentMinor: 490n })
    expect(await cap(vendor, undefined)).toMatchObject({ paused: false, spentMinor: 490n })
    await openCheckout(harness, vendor)
    expect((await reached(vendor)).events).toHaveLength(1)
  })

  test('keeps checkouts paused after a credit', async () => {
    const vendor = await harness.givenVendor()
    await cap(vendor, 245n)
    const { charge } = await givenSold(harness, vendor)
    await harness.simulator.control('refund', { charge })
    await handled(harness, vendor)
    expect(await capStatus(vendor)).toMatchObject({ spentMinor: 0n, paused: true })
    await expectPaused(vendor)
  })

  test('at or below the spent amount pauses checkouts at once, and is reported for the application charged last', async () => {
    const vendor = await harness.givenVendor()
    await givenSold(harness, vendor)
    expect(await cap(vendor, 200n)).toMatchObject({ paused: true, spentMinor: 245n })
    const { events, applications } = await reached(vendor)
    expect(events).toMatchObject([{ cap_minor: 200, spent_minor: 245 }])
    expect(applications).toEqual([vendor.applicationId])
  })

  test('of zero pauses checkouts from the start, and is reported for the oldest application, once in each month', async () => {
    const vendor = await harness.givenVendor()
    const account = harness.catalog.accounts.get(vendor.accountId)!
    account.applicationIds.push('app_7zzzzzzzzzzzzzzzzzzzzzzzzz')
    expect(await cap(vendor, 0n)).toMatchObject({ paused: true, spentMinor: 0n })
    await expectPaused(vendor)
    expect((await reached(vendor)).applications).toEqual([vendor.applicationId])
    // This is the state of a cap that was set in an earlier month.
    await harness.sql`update cap_periods set period = '2020-01' where account_id = ${vendor.accountId}`
    expect(await capStatus(vendor)).toMatchObject({ paused: true, capMinor: 0n, spentMinor: 0n })
    await expectPaused(vendor)
    await reachZeroCaps(harness.deps)
    await reachZeroCaps(harness.deps)
    expect((await reached(vendor)).events).toHaveLength(2)
    expect(await capStatus(vendor)).toMatchObject({ paused: true, reachedAt: expect.anything() })
  })

  test('refuses checkouts in another currency, and never pauses a checkout without a fee', async () => {
    const vendor = await harness.givenVendor()
    await cap(vendor, 100n, 'eur')
    await expect(openCheckout(harness, vendor)).rejects.toMatchObject({ code: 'validation_failed' })
    await cap(vendor, 0n)
    harness.catalog.accounts.get(vendor.accountId)!.feeBps = 0
    expect(await openCheckout(harness, vendor)).toMatchObject({ feeMinor: 0n })
  })

  test('counts a charge in its own month', async () => {
    const vendor = await harness.givenVendor()
    await cap(vendor, 245n)
    await givenSold(harness, vendor, { created: Date.UTC(2026, 9, 31, 23, 59, 59) / 1000 })
    expect(await feesOf(harness, vendor)).toMatchObject([{ period: '2026-10' }])
    expect(await capStatus(vendor)).toMatchObject({ spentMinor: 0n, paused: false })
    await openCheckout(harness, vendor)
  })

  test('is reached exactly once, however many payments race across it', async () => {
    const vendor = await harness.givenVendor()
    const sessions = await openCheckouts(harness, vendor, 20)
    await cap(vendor, 1000n)
    await Promise.all(sessions.map((session) => pay(harness, session)))
    expect((await reached(vendor)).events).toMatchObject([{ cap_minor: 1000, spent_minor: 1225 }])
    expect(await capStatus(vendor)).toMatchObject({ spentMinor: 20n * 245n, paused: true })
  })
})

test('the ledger adds up to the sums of the periods', async () => {
  const rows = await harness.sql<{ difference: bigint }[]>`
    select coalesce(p.spent_minor, 0) - f.total as difference
    from (
      select account_id, period, currency, sum(amount_minor)::bigint as total from fee_entries
      group by account_id, period, currency
    ) f left join fee_periods p using (account_id, period, currency)`
  expect(rows.length).toBeGreaterThan(3)
  expect(rows.every((row) => row.difference === 0n)).toBe(true)
})
