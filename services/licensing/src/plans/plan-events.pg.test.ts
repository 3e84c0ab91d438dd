import { create } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { forFile, planCopy, startHarness } from '../../test/harness.ts'
import { activeOn, givenLicence, givenPlan, issue, statusOf, detailOf } from '../../test/makers.ts'
import { consumePlanEvents } from './apply-plan-copies.ts'

const harness = await forFile(startHarness)

const seats = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '0' }]
/** A version that catalog has stored but not pushed. */
const saved = (of: PlanCopy, change: Partial<Pick<PlanCopy, 'status' | 'archiveVersion'>>, value = '2') => {
  const copy = planCopy(harness, {
    id: of.id,
    version: of.version + 1n,
    ...change,
    entitlements: seats(value),
  })
  harness.catalog.copies.set(copy.id, copy)
  return copy
}
const consume = (...payloads: { changed: { planId: string; version: bigint }[] }[]) =>
  harness.deps.change((tx) =>
    consumePlanEvents(
      tx,
      payloads.map((value) => ({
        event: create(EventSchema, {
          id: newId('evt'),
          accountId: harness.accountId,
          applicationId: harness.applicationId,
          payload: { case: 'planCopyChanged', value },
        }),
        traceParent: undefined,
      })),
    ),
  )
const named = ({ id: planId, version }: PlanCopy) => ({ changed: [{ planId, version }] })
const awaited = async () => (await harness.sql`select 1 from awaited_plans`).count
const seatsOf = async (plan: PlanCopy) => {
  const { licence } = await issue(harness, { planId: plan.id })
  const { entitlements } = await detailOf(harness, licence!)
  return entitlements.find(({ key }) => key === 'seats')?.value
}

test('if an event names a new version of a plan, licensing reads it from catalog: issues use it, and an archive suspends', async () => {
  const changed = await givenPlan(harness, { entitlements: seats('1') })
  const archived = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: archived.id })
  const unknown = planCopy(harness, { entitlements: seats('7') })
  harness.catalog.copies.set(unknown.id, unknown)
  await consume(
    named(saved(changed, {})),
    named(saved(archived, { status: 'retired', archiveVersion: 2n })),
    named(unknown),
  )
  await eventually(async () => expect(await awaited()).toBe(0))
  expect(await seatsOf(changed)).toBe('2')
  expect(await statusOf(harness, licence)).toBe('suspended')
  expect(await activeOn(harness, archived)).toBe(0n)
  expect(await harness.sql`select 1 from plans where id = ${unknown.id}`).toHaveLength(1)
})

test('while catalog is unavailable other events are consumed; the plan is read when catalog is available again', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('1') })
  harness.catalog.unavailable = true
  await consume(named(saved(plan, {}, '3')))
  const other = await givenPlan(harness)
  await consume(named(planCopy(harness, { id: other.id, version: 2n })))
  await harness.licensing.syncPlans({
    plans: [planCopy(harness, { id: other.id, version: 2n, entitlements: seats('5') })],
  })
  expect(await seatsOf(other)).toBe('5')
  await harness.sql`update awaited_plans set since = since - interval '1 minute'`
  await eventually(async () => expect(await awaited()).toBe(1))
  expect(await seatsOf(plan)).toBe('1')
  harness.catalog.unavailable = false
  await eventually(async () => expect(await awaited()).toBe(0))
  expect(await seatsOf(plan)).toBe('3')
})

test('catalog is not asked for a plan whose push has arrived, or for an older version', async () => {
  const plan = await givenPlan(harness, { version: 5n })
  await consume(named(plan), named(planCopy(harness, { id: plan.id, version: 4n })))
  expect(await awaited()).toBe(0)
  // The event arrives before the push. Catalog does not have this plan: if it were asked, the plan would be given up.
  await consume(named(planCopy(harness, { id: plan.id, version: 6n })), {
    changed: [
      { planId: plan.id, version: 8n },
      { planId: plan.id, version: 7n },
    ],
  })
  expect(await awaited()).toBe(1)
  await harness.licensing.syncPlans({ plans: [planCopy(harness, { id: plan.id, version: 8n })] })
  await eventually(async () => expect(await awaited()).toBe(0))
})

test('if catalog has lost a version that an event named, its answer settles the plan: each is asked for once', async () => {
  const plans = await Promise.all(Array.from({ length: 25 }, () => givenPlan(harness)))
  for (const plan of plans) harness.catalog.copies.set(plan.id, plan)
  harness.catalog.asked.length = 0
  await consume(...plans.map((plan) => named({ ...plan, version: plan.version + 5n })))
  await eventually(async () => expect(await awaited()).toBe(0))
  expect(harness.catalog.asked.toSorted()).toEqual(plans.map(({ id }) => id).toSorted())
})

test('plans that catalog cannot answer for are asked for with pauses, and delay no other plan', async () => {
  const broken = await Promise.all(Array.from({ length: 25 }, () => givenPlan(harness)))
  for (const plan of broken) {
    harness.catalog.copies.set(plan.id, plan)
    harness.catalog.broken.add(plan.id)
  }
  await consume(...broken.map((plan) => named({ ...plan, version: plan.version + 1n })))
  await harness.sql`update awaited_plans set since = since - interval '1 hour', ask_at = ask_at - interval '1 hour'`
  harness.catalog.asked.length = 0
  const other = await givenPlan(harness, { entitlements: seats('1') })
  await consume(named(saved(other, {}, '4')))
  await eventually(async () => expect(await awaited()).toBe(broken.length))
  expect(await seatsOf(other)).toBe('4')
  const times = Map.groupBy(harness.catalog.asked, (id) => id)
  expect(Math.max(...[...times.values()].map((asked) => asked.length))).toBe(1)
  harness.catalog.broken.clear()
  await harness.sql`update awaited_plans set ask_at = now()`
  await eventually(async () => expect(await awaited()).toBe(0))
})
