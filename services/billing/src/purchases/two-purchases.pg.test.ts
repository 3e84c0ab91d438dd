import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenSold, handled, licenceOf, licencesOf, refundsOf, sentTypes } from '../../test/shop.ts'
import {
  act,
  endWithGrace,
  expiryOf,
  givenOtherPlan,
  givenSubscribed,
  monthly,
} from '../../test/subscribed.ts'
import type { Subscribed } from '../../test/subscribed.ts'
import { anotherPlan } from '../../test/vendor.ts'
import type { Vendor } from '../../test/vendor.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

describe('of two purchases of one customer', () => {
  test('after a refund of the later the licence rests on the earlier; after refunds of both it is revoked', async () => {
    const vendor = await harness.givenVendor()
    const better = await anotherPlan(harness, vendor, { amount: 9900n, mode: 'payment', currency: 'usd' })
    const first = await givenSold(harness, vendor)
    const upgrade = await givenSold(harness, better)
    expect(upgrade.licenceId).toBe(first.licenceId)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({ planId: better.planId })
    await harness.simulator.control('refund', { charge: upgrade.charge })
    await handled(harness)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({
      status: 'active',
      planId: vendor.planId,
    })
    await harness.simulator.control('refund', { charge: first.charge })
    await handled(harness)
    expect(await licenceOf(harness, vendor, first.licenceId)).toMatchObject({ status: 'revoked' })
    await eventually(() =>
      expect(sentTypes(harness, vendor).filter((type) => type === 'licence.revoked')).toHaveLength(1),
    )
  })

  test.each([
    ['a refund', 'refund', {}],
    ['a partial refund', 'refund', { amount: 100 }],
    ['a chargeback', 'dispute', { kind: 'chargeback' }],
  ])('%s of the earlier is reported, and changes no licence', async (_, action, how) => {
    const vendor = await harness.givenVendor()
    const first = await givenSold(harness, vendor)
    await givenSold(harness, vendor)
    await harness.simulator.control(action, { charge: first.charge, ...how })
    await handled(harness)
    expect(await licencesOf(harness, vendor)).toMatchObject([{ status: 'active' }])
    expect(await refundsOf(harness, vendor)).toHaveLength(1)
    await eventually(() => expect(sentTypes(harness, vendor)).toContain('refund.processed'))
  })
})

describe('of two subscriptions of one customer', () => {
  async function givenTwo(): Promise<{ earlier: Subscribed; later: Subscribed; better: Vendor }> {
    const vendor = await harness.givenVendor(monthly)
    const earlier = await givenSubscribed(harness, vendor)
    const better = await givenOtherPlan(harness, vendor)
    const sold = await givenSubscribed(harness, better)
    const later = { ...sold, vendor }
    expect(later.licenceId).toBe(earlier.licenceId)
    await handled(harness)
    return { earlier, later, better }
  }

  test('the licence has the plan and the end of the later; effects of the earlier do not change it', async () => {
    const { earlier, later, better } = await givenTwo()
    await act(harness, later, 'renew')
    await handled(harness)
    const end = await endWithGrace(harness, later)
    expect(await expiryOf(harness, later)).toBe(end)
    for (let attempt = 0; attempt < 3; attempt += 1) await act(harness, earlier, 'fail-invoice')
    await act(harness, earlier, 'renew')
    await act(harness, earlier, 'cancel', { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, later.vendor, later.licenceId)).toMatchObject({
      status: 'active',
      planId: better.planId,
    })
    expect(await expiryOf(harness, later)).toBe(end)
    expect(await licencesOf(harness, later.vendor)).toHaveLength(1)
  })

  test('when the later is refunded, the licence rests on the earlier with its plan and renewals', async () => {
    const { earlier, later } = await givenTwo()
    await act(harness, earlier, 'renew')
    await handled(harness)
    await harness.simulator.control('refund', { charge: later.charge })
    await handled(harness)
    expect(await licenceOf(harness, earlier.vendor, earlier.licenceId)).toMatchObject({
      status: 'active',
      planId: earlier.vendor.planId,
    })
    expect(await expiryOf(harness, earlier)).toBe(await endWithGrace(harness, earlier))
    await act(harness, earlier, 'renew')
    await handled(harness)
    expect(await expiryOf(harness, earlier)).toBe(await endWithGrace(harness, earlier))
    await act(harness, earlier, 'cancel', { when: 'now' })
    await handled(harness)
    expect(await licenceOf(harness, earlier.vendor, earlier.licenceId)).toMatchObject({ status: 'expired' })
  })
})
