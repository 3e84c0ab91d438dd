import { expect, test } from 'vitest'
import {
  actor,
  eventsOf,
  givenDefinitions,
  givenPlan,
  givenTenant,
  resolved,
  startTestCatalog,
} from '../../test/catalog.ts'

test('archive retires the plan and suspends its licences; restore makes the plan active again', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const plan = await givenPlan(catalog, tenant)
  const path = { ...tenant, planId: plan.id }
  const { calls, licensing } = catalog
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
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await expect(catalog.calls.restorePlan(path)).rejects.toMatchObject({
    code: 'conflict',
    members: { current: 'active', allowed: ['archive'] },
  })
  await catalog.calls.archivePlan({ ...path, actor })
  await expect(catalog.calls.archivePlan({ ...path, actor })).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('restore it first'),
    members: { current: 'retired', allowed: ['restore'] },
  })
  await catalog.calls.restorePlan(path)
  await expect(catalog.calls.restorePlan(path)).rejects.toMatchObject({ code: 'conflict' })
})

test('a retired plan is edited like any other, and stays retired', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await catalog.calls.archivePlan({ ...path, actor: 'key_1' })
  const overrides = [{ key: 'seats', value: '8' }]
  const plan = await catalog.calls.updatePlan({ ...path, name: 'Old', entitlements: { overrides } })
  expect(plan).toMatchObject({ status: 'retired', name: 'Old', entitlements: [{ value: '8' }] })
  expect(resolved(catalog, path.planId)).toEqual({ seats: '8' })
  expect(catalog.licensing.copies.get(path.planId)).toMatchObject({ status: 'retired', archiveVersion: 2n })
})

test('each change writes one event that names the version, in order, and sends the whole copy to licensing', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  await catalog.calls.updatePlan({ ...path, entitlements: { overrides: [{ key: 'seats', value: '2' }] } })
  await catalog.calls.archivePlan({ ...path, actor })
  await catalog.calls.restorePlan(path)
  const events = await eventsOf(catalog.sql)
  expect(events).toMatchObject([1n, 2n, 3n, 4n].map(() => tenant))
  expect(events.map(({ payload }) => payload.value)).toMatchObject(
    [1n, 2n, 3n, 4n].map((version) => ({ changed: [{ planId: path.planId, version }] })),
  )
  expect(
    catalog.licensing.synced.map(({ version, status, entitlements }) => [
      version,
      status,
      entitlements[0]!.value,
    ]),
  ).toEqual([
    [1n, 'active', '1'],
    [2n, 'active', '2'],
    [3n, 'retired', '2'],
    [4n, 'active', '2'],
  ])
})
