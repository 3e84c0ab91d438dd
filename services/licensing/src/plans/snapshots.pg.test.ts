import type { PlanCopy } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import { forFile, planCopy } from '../../test/harness.ts'
import type { Harness } from '../../test/harness.ts'
import { givenPlan, issue, findWrongSnapshots, verbOn, importItems, atOnce } from '../../test/makers.ts'
import { provision, unique } from '../../test/purchases.ts'
import { expectNoDeadlock, rounds, startReplicas, untilAvailable } from '../../test/races.ts'

const { harness, either } = await forFile(startReplicas)

const seats = (value: string) => [{ key: unique('seats'), kind: 'limit', value, default: '0' }]

function change(on: Harness, plan: PlanCopy, value: string) {
  plan.version += 1n
  const { id, version } = plan
  return on.licensing.syncPlans({ plans: [planCopy(harness, { id, version, entitlements: seats(value) })] })
}

/** Each way in which a licence can get the entitlements of a plan. */
const ways: ((on: Harness, planId: string) => Promise<{ id: string }>)[] = [
  async (on, planId) => (await issue(on, { planId })).licence!,
  async (on, planId) => {
    const { items } = await importItems(on, [{ legacyKey: unique('legacy'), planId }])
    return { id: items[0]!.licenceId! }
  },
  async (on, planId) => (await provision(on, { planId, externalRef: unique('buyer') })).licence,
  // The purchase changes a licence that was issued.
  async (on, planId) => {
    const externalRef = unique('buyer')
    await issue(on, { planId, externalRef })
    return (await provision(on, { planId, externalRef })).licence
  },
]

const countSnapshots = async () => (await harness.sql`select 1 from snapshots`).count

test('a plan that changes 100 times adds a snapshot only for the changes after which a licence was made', async () => {
  const plan = await givenPlan(harness)
  const before = await countSnapshots()
  for (let value = 0; value < 100; value += 1) {
    await change(harness, plan, `${value}`)
    if (value % 25 === 24) await ways[Math.floor(value / 25)]!(harness, plan.id)
  }
  expect(await countSnapshots()).toBe(before + ways.length)
  expect(await findWrongSnapshots(harness)).toEqual({ missing: [], unused: [] })
})

test('equal entitlements are stored once for all plans and licences, in whichever order a plan lists them', async () => {
  const entitlements = [...seats('11'), { key: 'export', kind: 'feature', value: 'true', default: 'false' }]
  const before = await countSnapshots()
  for (const list of [entitlements, entitlements.toReversed()]) {
    const plan = await givenPlan(harness, { entitlements: list })
    await issue(harness, { planId: plan.id })
  }
  expect(await countSnapshots()).toBe(before + 1)
})

test('while a plan changes, each new licence gets the entitlements of one of its versions', async () => {
  for (const round of rounds) {
    const plan = await givenPlan(harness, { entitlements: seats('0') })
    const values = Array.from({ length: 12 }, (_, at) => `${at + 1}`)
    const changing = values.map((value, at) => change(either(at), plan, value))
    const licences = await atOnce(24, (at) =>
      untilAvailable(() => ways[at % ways.length]!(either(at + round), plan.id)),
    )
    await Promise.all(changing)
    for (const licence of licences) {
      const { entitlements, planDrift } = await either(round).licensing.getLicence(verbOn(harness, licence))
      expect(['0', ...values]).toContain(entitlements[0]!.value)
      expect(entitlements).toHaveLength(1)
      expect(planDrift.length === 0).toBe(entitlements[0]!.value === values.at(-1))
    }
  }
  expect(await findWrongSnapshots(harness)).toEqual({ missing: [], unused: [] })
  await expectNoDeadlock(harness)
})
