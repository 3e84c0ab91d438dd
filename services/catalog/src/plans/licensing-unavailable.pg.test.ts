import { expect, test } from 'vitest'
import {
  changesOf,
  eventsOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  resolved,
  startTestCatalog,
  outcomeOf,
  outcomesOf,
} from '../../test/catalog.ts'
import type { LicensingStub } from '../../test/licensing-stub.ts'

async function givenApplication() {
  const catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant)
  const path = { ...tenant, planId: plan.id }
  const definition = { ...tenant, entitlementDefId: seats! }
  const entitlements = { overrides: [{ key: 'seats', value: '7' }] }
  const changes = {
    patch: () => catalog.calls.updatePlan({ ...path, entitlements }),
    archive: () => catalog.calls.archivePlan({ ...path, actor: 'key_1' }),
    restore: () => catalog.calls.restorePlan(path),
    define: () => catalog.calls.createEntitlementDefinition({ ...tenant, key: 'sso', kind: 'feature' }),
    change: () => catalog.calls.updateEntitlementDefinition({ ...definition, default: '3' }),
    remove: () => catalog.calls.deleteEntitlementDefinition(definition),
  }
  const dispose = () => catalog[Symbol.asyncDispose]()
  return { catalog, tenant, path, changes, [Symbol.asyncDispose]: dispose }
}

test('while licensing is unavailable no change that it has to apply is saved', async () => {
  await using given = await givenApplication()
  const { catalog, tenant, changes } = given
  const before = await eventsOf(catalog.sql)
  const state = () =>
    catalog.sql`select p, o, d from plans p left join plan_overrides o on true cross join entitlement_definitions d`
  const held = await state()
  await catalog.licensing.stop()
  const outcomes = await outcomesOf(Object.values(changes).map((change) => change()))
  expect(outcomes).toEqual(outcomes.map(() => 'unavailable'))
  await expect(changes.patch()).rejects.toMatchObject({
    message: expect.stringContaining('nothing was changed'),
  })
  expect(await outcomeOf(catalog.calls.getPlan(given.path))).toBe('unavailable')
  expect(await eventsOf(catalog.sql)).toEqual(before)
  expect(await state()).toEqual(held)
  expect(
    (await catalog.calls.listEntitlementDefinitions({ ...tenant, ...firstPage })).definitions,
  ).toHaveLength(1)
})

test('no change that licensing has to apply is saved if licensing answers but its database does not', async () => {
  await using given = await givenApplication()
  const before = await eventsOf(given.catalog.sql)
  given.catalog.licensing.refused.add('countActiveLicences')
  const outcomes = await outcomesOf(Object.values(given.changes).map((change) => change()))
  expect(outcomes).toEqual(outcomes.map(() => 'unavailable'))
  expect(await eventsOf(given.catalog.sql)).toEqual(before)
})

test('a plan is created while licensing is unavailable, because licensing fetches missing copies', async () => {
  await using given = await givenApplication()
  const { catalog, tenant } = given
  await catalog.licensing.stop()
  const plan = await givenPlan(catalog, tenant, 'new', { seats: '4' })
  expect(await catalog.calls.getPlanCopy({ ...tenant, planId: plan.id })).toMatchObject({
    id: plan.id,
    version: 1n,
    entitlements: [{ key: 'seats', value: '4' }],
  })
  expect((await changesOf(catalog.sql)).at(-1)).toEqual({ planId: plan.id, version: 1n })
})

test('a change that does not reach licensing is not reported as done; a repetition succeeds', async () => {
  await using given = await givenApplication()
  const { catalog, changes, path } = given
  const { licensing } = catalog
  licensing.refused.add('syncPlans')
  await expect(changes.patch()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('the change is saved'),
  })
  expect(await outcomeOf(changes.change())).toBe('unavailable')
  expect(resolved(catalog, path.planId)).toEqual({ seats: '1' })
  const events = await eventsOf(catalog.sql)
  expect((await changesOf(catalog.sql)).at(-1)).toEqual({ planId: path.planId, version: 3n })
  expect(await catalog.calls.getPlanCopy(path)).toMatchObject({
    version: 3n,
    entitlements: [{ value: '7', default: '3' }],
  })

  licensing.refused.clear()
  expect(await changes.patch()).toMatchObject({ entitlements: [{ value: '7' }] })
  expect(resolved(catalog, path.planId)).toEqual({ seats: '7' })
  expect(await changes.change()).toMatchObject({ default: '3' })
  expect(await eventsOf(catalog.sql)).toEqual(events)
})

test('an interrupted archive is finished by the next call, once, with its count', async () => {
  await using given = await givenApplication()
  const { catalog, changes, path } = given
  catalog.licensing.active.set(path.planId, 5n)
  catalog.licensing.refused.add('archivePlan')
  await expect(changes.archive()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('is retired; its licences are suspended as soon as'),
  })
  const events = await eventsOf(catalog.sql)
  expect((await changesOf(catalog.sql)).at(-1)).toEqual({ planId: path.planId, version: 2n })
  expect(await catalog.calls.getPlanCopy(path)).toMatchObject({ status: 'retired', archiveVersion: 2n })
  expect(await outcomeOf(changes.archive())).toBe('unavailable')

  catalog.licensing.refused.clear()
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, changes.archive))
  const done = outcomes.filter((outcome) => outcome.status === 'fulfilled').map(({ value }) => value)
  expect(done).toMatchObject([{ suspendedLicences: 5n, plan: { status: 'retired' } }])
  expect(await outcomeOf(changes.archive())).toBe('conflict')
  expect(await eventsOf(catalog.sql)).toEqual(events)
})

test('an interrupted restore is finished by the next call; an earlier unfinished archive cannot be continued then', async () => {
  await using given = await givenApplication()
  const { catalog, changes, path } = given
  const { licensing } = catalog
  licensing.refused.add('archivePlan').add('syncPlans')
  expect(await outcomeOf(changes.archive())).toBe('unavailable')
  expect(await outcomeOf(changes.restore())).toBe('unavailable')
  licensing.refused.clear()
  expect(await changes.restore()).toMatchObject({ status: 'active' })
  expect(licensing.copies.get(path.planId)).toMatchObject({
    status: 'active',
    version: 3n,
    archiveVersion: 2n,
  })
  expect(await outcomeOf(changes.restore())).toBe('conflict')
  expect(await changes.archive()).toMatchObject({ plan: { status: 'retired' } })
  expect(licensing.copies.get(path.planId)).toMatchObject({ archiveVersion: 4n })
})

/** Makes licensing wait with its answers to archives until `release` is resolved. */
function holdArchives(licensing: LicensingStub) {
  const entered = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  licensing.whileArchiving = () => {
    entered.resolve()
    return release.promise
  }
  return { entered, release }
}

test('an archive in progress is not continued by another call', async () => {
  await using given = await givenApplication()
  const { catalog, changes } = given
  const { entered, release } = holdArchives(catalog.licensing)
  const first = changes.archive()
  await entered.promise
  expect(await outcomesOf(Array.from({ length: 5 }, changes.archive))).toEqual(Array(5).fill('conflict'))
  release.resolve()
  expect(await first).toMatchObject({ plan: { status: 'retired' } })
})

test('if two calls were in progress, a later failure does not undo the confirmation', async () => {
  await using given = await givenApplication()
  const { catalog, changes, path } = given
  const { entered, release } = holdArchives(catalog.licensing)
  const slow = changes.archive()
  await entered.promise
  // As if the first call had taken longer than the time limit.
  await catalog.sql`update plans set unconfirmed_until = clock_timestamp() where id = ${path.planId}`
  catalog.licensing.whileArchiving = async () => {}
  expect(await changes.archive()).toMatchObject({ plan: { status: 'retired' } })
  catalog.licensing.refused.add('archivePlan')
  release.reject(new Error('cut'))
  expect(await outcomeOf(slow)).not.toBe('ok')
  catalog.licensing.refused.clear()
  expect(await outcomeOf(changes.archive())).toBe('conflict')
})

test('a call waits for a licensing service that is being restarted', async () => {
  await using given = await givenApplication()
  const { catalog, changes } = given
  for (const change of [changes.archive, changes.restore, changes.define]) {
    await catalog.licensing.stop()
    expect(await outcomeOf(change())).toBe('unavailable')
    await catalog.licensing.start()
    expect(await outcomeOf(change())).toBe('ok')
  }
})
