import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import { eventTypes, givenPlan, refusal, verbOn } from '../../test/makers.ts'
import { callOf, givenActivation } from '../../test/products.ts'
import { buy, daysAgo, inDays, unique } from '../../test/purchases.ts'

const harness = await forFile(startHarness)

test('a server whose clock is ahead refuses a product early, but does not end the purchase of its licence', async () => {
  const [small, large] = [await givenPlan(harness), await givenPlan(harness)]
  const externalRef = unique('buyer')
  await buy(harness, { planId: small.id, externalRef, orderedAt: daysAgo(9) })
  const { licence } = await buy(harness, {
    planId: large.id,
    externalRef,
    orderedAt: daysAgo(5),
    endsAt: inDays(1 / 24),
  })
  const grant = await givenActivation(harness.products, licence)
  const sent = await eventTypes(harness, licence)

  harness.clock.aheadMs = 2 * 3_600_000
  expect(await refusal(harness.products.refreshActivation(callOf(grant)))).toMatchObject({
    code: 'licence_refused',
    members: { reason: 'expired' },
  })
  harness.clock.aheadMs = 0
  const { licence: now } = await harness.licensing.getLicence(verbOn(harness, licence))
  expect(now).toMatchObject({ planId: large.id, expiresOn: licence.expiresOn })
  expect(await eventTypes(harness, licence)).toEqual(sent)
})
