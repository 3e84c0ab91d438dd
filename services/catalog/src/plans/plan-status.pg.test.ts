import { beforeEach, expect, test } from 'vitest'
import {
  actor,
  catalogOfFile,
  eventsOf,
  givenDefinitions,
  givenPlan,
  givenTenant,
  planChange,
  resolved,
} from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('archive retires the plan and suspends its licences; restore makes the plan active again', async () => {
  const plan = await givenPlan(catalog, tenant)
  const path = { ...tenant, planId: plan.id }
  licensing.active.set(plan.id, 3n)

  const archived = await calls.archivePlan({ ...path, actor: 'key_1' })
  expect(archived).toMatchObject({ suspendedLicences: 3n, plan: { status: 'retired', activeLicences: 0n } })
  expect(licensing.copies.get(plan.id)).toMatchObject({
    status: 'retired',
    version: 2n,
    archiveVersion: 2n,
    archivedBy: 'key_1',
  })
  licensing.active.set(plan.id, 1n)
  expect(await calls.restorePlan(path)).toMatchObject({ status: 'active', activeLicences: 1n })
  expect(licensing.copies.get(plan.id)).toMatchObject({ status: 'active', version: 3n, archiveVersion: 2n })
  expect(await calls.archivePlan({ ...path, actor: 'key_2' })).toMatchObject({ suspendedLicences: 1n })
  expect(licensing.copies.get(plan.id)).toMatchObject({
    version: 4n,
    archiveVersion: 4n,
    archivedBy: 'key_2',
  })
})

test('a verb that the status does not allow is a conflict with the status and the allowed verbs', async () => {
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await expect(calls.restorePlan(path)).rejects.toMatchObject({
    code: 'conflict',
    message: `plan ${path.planId} is active; only a retired plan can be restored; archive it first`,
    members: { current: 'active', allowed: ['archive'] },
  })
  await calls.archivePlan({ ...path, actor })
  await expect(calls.archivePlan({ ...path, actor })).rejects.toMatchObject({
    code: 'conflict',
    message: `plan ${path.planId} is retired; only an active plan can be archived; restore it first`,
    members: { current: 'retired', allowed: ['restore'] },
  })
})

test('a retired plan is edited like any other, and stays retired', async () => {
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await calls.archivePlan({ ...path, actor: 'key_1' })
  const overrides = [{ key: 'seats', value: '8' }]
  const plan = await calls.updatePlan({
    ...path,
    ...planChange({ name: 'Old' }),
    entitlements: { overrides },
  })
  expect(plan).toMatchObject({ status: 'retired', name: 'Old', entitlements: [{ value: '8' }] })
  expect(resolved(catalog, path.planId)).toEqual({ seats: '8' })
  expect(licensing.copies.get(path.planId)).toMatchObject({ status: 'retired', archiveVersion: 2n })
})

test('each change writes one event that names the version, in order, and sends the whole copy to licensing', async () => {
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await calls.updatePlan({ ...path, entitlements: { overrides: [{ key: 'seats', value: '2' }] } })
  await calls.archivePlan({ ...path, actor })
  await calls.restorePlan(path)
  const events = await eventsOf(catalog, tenant)
  expect(events).toMatchObject([1n, 2n, 3n, 4n].map(() => tenant))
  expect(events.map(({ payload }) => payload.value)).toMatchObject(
    [1n, 2n, 3n, 4n].map((version) => ({ changed: [{ planId: path.planId, version }] })),
  )
  const copies = licensing.synced.filter(({ id }) => id === path.planId)
  expect(copies).toMatchObject([
    { version: 1n, status: 'active', entitlements: [{ value: '1' }] },
    { version: 2n, status: 'active', entitlements: [{ value: '2' }] },
    { version: 3n, status: 'retired', entitlements: [{ value: '2' }] },
    { version: 4n, status: 'active', entitlements: [{ value: '2' }] },
  ])
})
