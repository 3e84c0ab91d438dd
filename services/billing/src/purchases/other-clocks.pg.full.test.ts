import { eventually } from '@licensing/test-support/poll'
import { afterEach, expect, test, vi } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import { givenSold, licenceOf, openCheckout, pay, statusOf } from '../../test/shop.ts'
import { reconcile } from '../inbox/missed-events.ts'

const hour = 3_600_000

/** Billing's server has another time than the server of its database. */
const aheadBy = (ms: number) =>
  vi.useFakeTimers({ toFake: ['Date'], shouldAdvanceTime: true, now: Date.now() + ms })
afterEach(() => void vi.useRealTimers())

test('a server whose clock is an hour behind revokes after a refund as soon as any other', async () => {
  aheadBy(-hour)
  await using harness = await startHarness()
  const vendor = await harness.givenVendor()
  const { charge, licenceId } = await givenSold(harness, vendor)
  await harness.simulator.control('refund', { charge })
  await eventually(
    async () => expect(await licenceOf(harness, vendor, licenceId)).toMatchObject({ status: 'revoked' }),
    { timeoutMs: 20_000 },
  )
})

test('a server whose clock is an hour behind pauses before it asks the processor again', async () => {
  aheadBy(-hour)
  await using harness = await startHarness()
  const { simulator, sql } = harness
  const vendor = await harness.givenVendor()
  const session = await openCheckout(harness, vendor)
  await simulator.control('delivery-rules', { action: 'drop', types: ['charge.succeeded', 'charge.updated'] })
  const { connectedAccount: account } = vendor
  await simulator.control('faults', {
    answer: '403',
    until_cleared: true,
    path: '/v1/',
    method: 'GET',
    account,
  })
  await pay(harness, session)
  // It is provisioned without the charge a second after it was paid.
  await eventually(async () => expect(await statusOf(harness, vendor, session.id)).toBe('provisioned'))
  const [question] = await sql<{ attempts: number }[]>`
    select attempts from processor_questions where purchase_ref = ${session.id} and kind = 'charge'`
  expect(question!.attempts).toBeGreaterThan(0)
  expect(question!.attempts).toBeLessThan(8)
})

test('a server whose clock is ahead does not mark events as compared that are still to come', async () => {
  await using harness = await startHarness()
  const { connectedAccount } = await harness.givenVendor()
  const merchant = `stripe:${connectedAccount}`
  aheadBy(3 * hour)
  await reconcile(harness.deps, { merchant, reconciled_to: new Date() })
  const rows = await harness.sql`
    select from reconciliations where merchant = ${merchant} and reconciled_to <= clock_timestamp()`
  expect(rows).toHaveLength(1)
})
