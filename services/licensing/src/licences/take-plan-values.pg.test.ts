import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { PlanCopy } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { forFile, planCopy, startHarness } from '../../test/harness.ts'
import {
  actor,
  archive,
  events,
  eventTypes,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  findWrongSnapshots,
  verbOn,
  detailOf,
  changesOf,
} from '../../test/makers.ts'
import { effectiveOf, setOverride } from '../../test/overrides.ts'
import { apply, buy, daysAgo, inDays, provision, unique } from '../../test/purchases.ts'

const harness = await forFile(startHarness)

const seats = (value: string) => [{ key: 'seats', kind: 'limit', value, default: '1' }]
const take = (licence: { id: string }) => harness.licensing.takePlanValues(verbOn(harness, licence))
const detail = (licence: { id: string }) => detailOf(harness, licence)
const valueOf = async (licence: { id: string }) => (await detail(licence)).entitlements[0]!.value

async function changePlan(plan: PlanCopy, entitlements: PlanCopy['entitlements'] | ReturnType<typeof seats>) {
  plan.version += 1n
  const { id, version } = plan
  await harness.licensing.syncPlans({ plans: [planCopy(harness, { id, version, entitlements })] })
}

test('the snapshot gets the values that the plan grants now; the drift is empty, and the vendor gets an event', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  const licence = await givenLicence(harness, { planId: plan.id })
  const newer = { key: 'export', kind: 'feature', value: 'true', default: 'false' }
  await changePlan(plan, [newer, ...seats('9')])
  expect(await effectiveOf(harness, licence)).toEqual({ seats: '5 snapshot' })
  const taken = await take(licence)
  expect(taken).toMatchObject({ id: licence.id, key: licence.key, status: 'active', planId: plan.id })
  const found = await detail(licence)
  expect(found.licence).toEqual(taken)
  expect(found.planDrift).toEqual([])
  expect(await effectiveOf(harness, licence)).toEqual({ export: 'true snapshot', seats: '9 snapshot' })
  const inRest = ({ key, kind, value }: { key: string; kind: string; value: string }) => ({
    key,
    kind,
    value,
  })
  expect(await changesOf(harness, licence)).toEqual([
    {
      actor,
      changes: { entitlements: { from: seats('5').map(inRest), to: [newer, ...seats('9')].map(inRest) } },
    },
  ])
  expect(await events(harness, licence)).toEqual([
    {
      type: 'licence.entitlements_changed',
      object: { licence_id: licence.id, status: 'active' },
      previous: null,
    },
  ])
})

test('nothing is recorded if the licence has the plan’s values, and no event is sent if products get the same', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  const licence = await givenLicence(harness, { planId: plan.id })
  expect(await take(licence)).toEqual(licence)
  expect(await history(harness, licence)).toHaveLength(1)
  await setOverride(harness, licence, 'seats', { value: '7' })
  await changePlan(plan, seats('9'))
  await take(licence)
  expect(await changesOf(harness, licence)).toHaveLength(2)
  expect(await eventTypes(harness, licence)).toHaveLength(1)
  expect(await effectiveOf(harness, licence)).toEqual({ seats: '7 override' })
  // Only the default differs.
  await changePlan(plan, [{ ...seats('9')[0]!, default: '2' }])
  await take(licence)
  expect((await detail(licence)).planDrift).toEqual([])
  expect(await eventTypes(harness, licence)).toHaveLength(1)
})

test('a downgraded licence gets the new defaults, also on a retired plan', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  const licence = await givenLicenceIn(harness, 'downgraded', plan.id)
  await changePlan(plan, [{ ...seats('5')[0]!, default: '2' }])
  await archive(harness, planCopy(harness, { id: plan.id, version: plan.version, entitlements: seats('6') }))
  await take(licence)
  expect(await effectiveOf(harness, licence)).toEqual({ seats: '1 default' })
  expect(await valueOf(licence)).toBe('6')
})

test('a revoked or retired licence is refused', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  for (const [status, allowed] of [
    ['revoked', ['retire']],
    ['retired', []],
  ] as const) {
    const licence = await givenLicenceIn(harness, status, plan.id)
    expect(await refusal(take(licence))).toMatchObject({
      code: 'conflict',
      members: { current: status, allowed },
    })
  }
  const elsewhere = { ...verbOn(harness, { id: 'lic_none' }) }
  expect(await refusal(harness.licensing.takePlanValues(elsewhere))).toMatchObject({ code: 'not_found' })
})

test('renewals, and a purchase that takes over again, keep the values that were taken', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  const other = await givenPlan(harness, { entitlements: seats('2') })
  const first = await buy(harness, { planId: plan.id, orderedAt: daysAgo(9), endsAt: inDays(20) })
  const { licence } = first
  await changePlan(plan, seats('9'))
  await take(licence)
  const renewed = { kind: 'renewed' as const, endsAt: timestampFromDate(inDays(50)) }
  await apply(harness, first, renewed, daysAgo(8))
  expect(await valueOf(licence)).toBe('9')
  const { externalRef } = first.bought
  const second = await buy(harness, { planId: other.id, orderedAt: daysAgo(1), externalRef })
  expect(await valueOf(licence)).toBe('2')
  await apply(harness, second, { kind: 'refunded' }, daysAgo(0))
  expect(await valueOf(licence)).toBe('9')
})

test('values that are taken after a renewal changed the plan stay with the next renewal', async () => {
  const [plan, other] = [
    await givenPlan(harness, { entitlements: seats('5') }),
    await givenPlan(harness, { entitlements: seats('2') }),
  ]
  const paid = await buy(harness, { planId: plan.id, orderedAt: daysAgo(9), endsAt: inDays(20) })
  const renew = (days: number, at: Date) =>
    apply(harness, paid, { kind: 'renewed', planId: other.id, endsAt: timestampFromDate(inDays(days)) }, at)
  await renew(40, daysAgo(5))
  expect(await valueOf(paid.licence)).toBe('2')
  await changePlan(other, seats('8'))
  await take(paid.licence)
  await renew(60, daysAgo(2))
  expect(await valueOf(paid.licence)).toBe('8')
  expect((await findWrongSnapshots(harness)).missing).toEqual([])
})

test('values that were taken before the first payment belong to the terms on which the licence was issued', async () => {
  const plan = await givenPlan(harness, { entitlements: seats('5') })
  const other = await givenPlan(harness, { entitlements: seats('2') })
  const externalRef = unique('buyer')
  const licence = await givenLicence(harness, { planId: plan.id, externalRef })
  await changePlan(plan, seats('9'))
  await take(licence)
  const paid = await provision(harness, { planId: other.id, externalRef })
  expect(paid.licence.id).toBe(licence.id)
  await apply(harness, paid, { kind: 'refunded' }, new Date(Date.now() + 5))
  expect(await valueOf(licence)).toBe('9')
})
