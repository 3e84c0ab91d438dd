import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { sharedHarness } from '../test/harness.ts'
import { feesOf, givenSold, openCheckout, refundsOf } from '../test/shop.ts'

const harness = await sharedHarness()

async function expectInternal(call: Promise<unknown>): Promise<void> {
  const error = await call.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ServiceError)
  expect(error).toMatchObject({ code: 'internal' })
}

test('nothing is sold on a plan whose status is unknown, and the call fails with an internal error', async () => {
  const vendor = await harness.givenVendor()
  const plan = harness.catalog.plans.get(vendor.planId)!
  harness.catalog.plans.set(plan.id, { ...plan, status: 'frozen' })
  await expectInternal(openCheckout(harness, vendor))
  harness.catalog.plans.set(plan.id, plan)
  expect(await openCheckout(harness, vendor)).toMatchObject({ status: 'open' })
})

test('a refund whose status is unknown is an internal error when refunds are listed', async () => {
  const vendor = await harness.givenVendor()
  await givenSold(harness, vendor)
  const [fee] = await feesOf(harness, vendor)
  await harness.simulator.control('refund', { charge: fee!.chargeRef, amount: 100 })
  await eventually(async () => expect(await refundsOf(harness, vendor)).toHaveLength(1))
  const update = (status: string) =>
    harness.sql`update refunds set status = ${status} where account_id = ${vendor.accountId}`
  // `won` is a status of disputes, not of refunds. Other events of the refund may change its status meanwhile.
  await eventually(async () => {
    await update('won')
    await expectInternal(refundsOf(harness, vendor))
  })
  await update('succeeded')
  expect(await refundsOf(harness, vendor)).toMatchObject([{ status: 'succeeded' }])
})
