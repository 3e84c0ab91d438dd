import { ServiceError } from '@licensing/grpc/errors'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from './testing/harness.ts'
import type { Harness } from './testing/harness.ts'
import { feesOf, givenSold, openCheckout, refundsOf } from './testing/shop.ts'

let house: Harness
beforeAll(async () => {
  house = await startHarness()
})
afterAll(() => house[Symbol.asyncDispose]())

async function expectInternal(call: Promise<unknown>): Promise<void> {
  const error = await call.catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ServiceError)
  expect(error).toMatchObject({ code: 'internal' })
}

test('nothing is sold on a plan whose status is unknown, and the catalog is at fault', async () => {
  const vendor = await house.givenVendor()
  const plan = house.catalog.plans.get(vendor.planId)!
  house.catalog.plans.set(plan.id, { ...plan, status: 'frozen' })
  await expectInternal(openCheckout(house, vendor))
  house.catalog.plans.set(plan.id, plan)
  expect(await openCheckout(house, vendor)).toMatchObject({ status: 'open' })
})

test('a refund whose status is unknown is an internal error to who lists refunds', async () => {
  const vendor = await house.givenVendor()
  await givenSold(house, vendor)
  const [fee] = await feesOf(house, vendor)
  await house.simulator.control('refund', { charge: fee!.chargeRef, amount: 100 })
  await eventually(async () => expect(await refundsOf(house, vendor)).toHaveLength(1))
  const update = (status: string) =>
    house.sql`update refunds set status = ${status} where account_id = ${vendor.accountId}`
  // A dispute has it, and a refund has not.
  await update('won')
  await expectInternal(refundsOf(house, vendor))
  await update('succeeded')
  expect(await refundsOf(house, vendor)).toMatchObject([{ status: 'succeeded' }])
})
