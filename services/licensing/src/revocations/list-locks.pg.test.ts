import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { lockWaits } from '@licensing/test-support/lock-waits'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startHarness } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenPlan } from '../../test/makers.ts'
import { buy, daysAgo, unique } from '../../test/purchases.ts'
import type { Bought } from '../../test/purchases.ts'
import { expectNoDeadlock } from '../../test/races.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

/** A customer of a new application, who has paid. */
async function givenBought(applicationId: string): Promise<Bought & { applicationId: string }> {
  const plan = await givenPlan(harness, { applicationId })
  return {
    ...(await buy({ ...harness, applicationId }, { planId: plan.id, orderedAt: daysAgo(1) })),
    applicationId,
  }
}

function refundAll(purchases: (Bought & { applicationId: string })[]) {
  const { accountId } = harness
  const effects = purchases.map(({ applicationId, bought }) => {
    const { purchaseRef } = bought
    const times = { at: timestampFromDate(new Date()), orderedAt: timestampFromDate(bought.orderedAt) }
    const effect = { accountId, applicationId, purchaseRef, kind: 'refunded', cause: unique('refund') }
    return create(PurchaseEffectSchema, { ...effect, ...times })
  })
  return harness.purchases.applyPurchaseEffects({ effects })
}

test('batches that revoke licences of the same applications in different orders do not deadlock', async () => {
  const [x, y, z] = [newId('app'), newId('app'), newId('app')]
  const [first, second] = [
    await Promise.all([x, z, y].map(givenBought)),
    await Promise.all([y, x].map(givenBought)),
  ]
  await harness.sql`insert into revocation_lists (application_id) values (${z})`
  const holder = await harness.deps.lists.reserve()
  await holder`begin`
  await holder`select from revocation_lists where application_id = ${z} for update`
  const waits = (count: number) =>
    eventually(async () => expect(await lockWaits(harness.deps.lists)).toBe(count))
  const answers = [refundAll(first)]
  await waits(1)
  answers.push(refundAll(second))
  await waits(2)
  await holder`commit`
  holder.release()
  for (const { results } of await Promise.all(answers)) {
    expect(results.map(({ outcome }) => outcome.case)).toEqual(results.map(() => 'applied'))
  }
  await expectNoDeadlock(harness)
})
