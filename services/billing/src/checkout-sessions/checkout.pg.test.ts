import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startHarness } from '../testing/harness.ts'
import type { Harness } from '../testing/harness.ts'
import { openCheckout, pay, statusOf } from '../testing/shop.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

describe('a checkout that is paid', () => {
  test('issues one licence, tells of it, lists the payment with its charge and charges the fee', async () => {
    const vendor = await house.givenVendor()
    const session = await openCheckout(house, vendor)
    expect(session).toMatchObject({ status: 'open', amount: 4900n, currency: 'usd', feeMinor: 245n })
    await pay(house, session)
    await eventually(async () => expect(await statusOf(house, vendor, session.id)).toBe('provisioned'))
    const { payments } = await house.billing.listPayments({ ...vendor, limit: 10, beforeId: '' })
    expect(payments).toMatchObject([
      { sessionId: session.id, amount: 4900n, feeMinor: 245n, chargeRef: expect.stringMatching(/^ch_sim/) },
    ])
    const { fees } = await house.billing.listFees({ ...vendor, limit: 10, beforeId: '' })
    expect(fees).toMatchObject([{ kind: 'charge', amountMinor: 245n, chargeRef: payments[0]!.chargeRef }])
    const licenceId = payments[0]!.licenceId!
    await eventually(() =>
      expect(house.events.of(vendor.accountId)).toEqual(
        expect.arrayContaining([
          { type: 'licence.created', licence_id: licenceId, plan_id: vendor.planId, status: 'active' },
          { type: 'payment.succeeded', licence_id: licenceId, amount: 4900, currency: 'usd' },
        ]),
      ),
    )
    expect(house.events.of(vendor.accountId)).toHaveLength(2)
  })
})
