import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { PurchaseEffectSchema } from '@licensing/proto/purchases'
import { isFull } from '@licensing/test-support/drawn'
import { array, assert, asyncProperty, nat } from 'fast-check'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import { findUnruledStatuses, givenPlan } from '../../test/makers.ts'
import { effectsOf, mayRevokeEarly, orderBy, stories } from '../../test/purchase-stories.ts'
import { unique } from '../../test/purchases.ts'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import type { Effect } from './effect.ts'

const harness = await forFile(startHarness)
const plans = [await givenPlan(harness), await givenPlan(harness), await givenPlan(harness)]
const now = new Date()

const timeOf = (time: Date | null) => (time ? timestampFromDate(time) : undefined)

function messageOf(effect: Effect) {
  const { accountId, applicationId, purchaseRef, kind, cause } = effect
  const metadata = effect.kind === 'paid' && { metadata: { entries: effect.metadata } }
  const message = create(PurchaseEffectSchema, {
    accountId,
    applicationId,
    purchaseRef,
    kind,
    cause,
    ...metadata,
  })
  message.at = timestampFromDate(effect.at)
  message.orderedAt = timestampFromDate(effect.orderedAt)
  if (effect.since) message.since = timestampFromDate(effect.since)
  if (effect.kind === 'paid' || effect.kind === 'renewed') {
    const { planId, endsAt, updatesUntil } = effect
    Object.assign(message, { planId, endsAt: timeOf(endsAt), updatesUntil: timeOf(updatesUntil) })
  }
  if (effect.kind === 'paid')
    Object.assign(message, { externalRef: effect.externalRef, renews: effect.renews })
  return message
}

/** Sends effects in calls of these sizes. @returns the licences of the customer after a sweep */
async function licencesAfter(effects: Effect[], externalRef: string, sizes: number[]) {
  const left = effects.map(messageOf)
  for (let call = 0; left.length > 0; call += 1) {
    const { results } = await harness.purchases.applyPurchaseEffects({
      effects: left.splice(0, 1 + (sizes[call % sizes.length]! % 7)),
    })
    expect(results.map(({ outcome }) => outcome.case)).not.toContain('refused')
  }
  await sweepExpiries(harness.deps)
  return harness.sql<{ status: string }[]>`
    select plan_id, snapshot_id, expires_on, status, status_reason, metadata, updates_until from licences
    where application_id = ${harness.applicationId} and external_ref = ${externalRef} order by id`
}

test('in any order, in calls of any size and with repetitions, the licence is the same as in order of time', async () => {
  const places = array(nat({ max: 1_000 }), { minLength: 20, maxLength: 20 })
  const inAnyOrder = asyncProperty(stories, places, places, async (story, drawn, sizes) => {
    const customer = (externalRef: string) => {
      const { accountId, applicationId } = harness
      return effectsOf(story, {
        accountId,
        applicationId,
        externalRef,
        plans: plans.map(({ id }) => id),
        now,
      })
    }
    const [one, other] = [unique('buyer'), unique('buyer')]
    const inTime = await licencesAfter(customer(one), one, [0])
    const order = orderBy(customer(other), drawn)
    const repeated = order.flatMap((effect, at) => [effect, order[sizes[at % 20]! % (at + 1)]!])
    const inOrder = await licencesAfter(repeated, other, sizes)
    const isRevoked = [...inOrder, ...inTime].some(({ status }) => status === 'revoked')
    if (mayRevokeEarly(order) && isRevoked) return
    expect(isRevoked ? inOrder.at(-1)!.status : inOrder).toEqual(isRevoked ? inTime.at(-1)!.status : inTime)
  })
  await assert(inAnyOrder, { numRuns: isFull ? 300 : 8 })
  expect(await findUnruledStatuses(harness)).toEqual([])
}, 600_000)

test.each(['refunded', 'cancelled'] as const)(
  'a purchase that was %s before a known renewal returns to the plan that it had then',
  async (kind) => {
    const days = (count: number) => new Date(now.getTime() + (count - 30) * 86_400_000)
    const { accountId, applicationId } = harness
    const purchaseRef = unique('purchase')
    const about = { accountId, applicationId, purchaseRef, orderedAt: days(1) }
    const terms = { endsAt: days(60), updatesUntil: null }
    const sold = { planId: plans[0]!.id, externalRef: unique('buyer'), metadata: {}, renews: true }
    const effects: Effect[] = [
      { ...about, kind: 'paid', cause: 'first', at: days(1), ...terms, ...sold },
      { ...about, kind: 'renewed', cause: 'second', at: days(10), ...terms, planId: plans[1]!.id },
      { ...about, kind: 'renewed', cause: 'third', at: days(20), ...terms, planId: plans[2]!.id },
      { ...about, kind, cause: 'late', at: days(15) },
      { ...about, kind, cause: 'later known', at: days(5) },
    ]
    const planIds: string[] = []
    for (const effect of effects) {
      const { results } = await harness.purchases.applyPurchaseEffects({ effects: [messageOf(effect)] })
      const [{ outcome }] = results as [(typeof results)[number]]
      expect(outcome.case, `${effect.kind} ${effect.cause}`).toBe('applied')
      const [row] = await harness.sql<{ plan_id: string }[]>`
        select plan_id from purchases where purchase_ref = ${purchaseRef}`
      planIds.push(row!.plan_id)
    }
    expect(planIds).toEqual([0, 1, 2, 1, 0].map((at) => plans[at]!.id))
  },
)
