import { beforeEach, expect, test } from 'vitest'
import {
  catalogOfFile,
  changesOf,
  eventsOf,
  givenDefinitions,
  givenPlan,
  givenTenant,
  outcomeOf,
  outcomesOf,
  resolved,
} from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing, sql } = catalog

let tenant: Tenant
/** A plan, and the changes that licensing has to apply. */
let path: Tenant & { planId: string }
let changes: Awaited<ReturnType<typeof givenChanges>>
beforeEach(async () => {
  tenant = await givenTenant(catalog)
  changes = await givenChanges()
})

async function givenChanges() {
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  path = { ...tenant, planId: (await givenPlan(catalog, tenant)).id }
  const definition = { ...tenant, entitlementDefId: seats! }
  const entitlements = { overrides: [{ key: 'seats', value: '7' }] }
  return {
    patch: () => calls.updatePlan({ ...path, entitlements }),
    archive: () => calls.archivePlan({ ...path, actor: 'key_1' }),
    restore: () => calls.restorePlan(path),
    define: () => calls.createEntitlementDefinition({ ...tenant, key: 'sso', kind: 'feature' }),
    change: () => calls.updateEntitlementDefinition({ ...definition, default: '3' }),
    remove: () => calls.deleteEntitlementDefinition(definition),
  }
}

test('while licensing or its database is unavailable no change that it has to apply is saved', async () => {
  const before = await eventsOf(catalog, tenant)
  const state = () =>
    sql`select p, o, d from plans p left join plan_overrides o on true cross join entitlement_definitions d`
  const held = await state()
  licensing.refused.add('countActiveLicences')
  const outcomes = await outcomesOf(Object.values(changes).map((change) => change()))
  expect(outcomes).toEqual(outcomes.map(() => 'unavailable'))
  await licensing.stop()
  await expect(changes.patch()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('nothing was changed'),
  })
  expect(await outcomeOf(calls.getPlan(path))).toBe('unavailable')
  expect(await eventsOf(catalog, tenant)).toEqual(before)
  expect(await state()).toEqual(held)
})

test('a plan is created while licensing is unavailable, because licensing fetches missing copies', async () => {
  await licensing.stop()
  const plan = await givenPlan(catalog, tenant, 'new', { seats: '4' })
  expect(await calls.getPlanCopy({ ...tenant, planId: plan.id })).toMatchObject({
    id: plan.id,
    version: 1n,
    entitlements: [{ key: 'seats', value: '4' }],
  })
  expect((await changesOf(catalog, tenant)).at(-1)).toEqual({ planId: plan.id, version: 1n })
})

test('a change that does not reach licensing is not reported as done; a repetition succeeds', async () => {
  licensing.refused.add('syncPlans')
  await expect(changes.patch()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('the change is saved'),
  })
  expect(await outcomeOf(changes.change())).toBe('unavailable')
  expect(resolved(catalog, path.planId)).toEqual({ seats: '1' })
  const events = await eventsOf(catalog, tenant)
  expect((await changesOf(catalog, tenant)).at(-1)).toEqual({ planId: path.planId, version: 3n })
  expect(await calls.getPlanCopy(path)).toMatchObject({
    version: 3n,
    entitlements: [{ value: '7', default: '3' }],
  })

  licensing.refused.clear()
  expect(await changes.patch()).toMatchObject({ entitlements: [{ value: '7' }] })
  expect(resolved(catalog, path.planId)).toEqual({ seats: '7' })
  expect(await changes.change()).toMatchObject({ default: '3' })
  expect(await eventsOf(catalog, tenant)).toEqual(events)
})

test('an interrupted archive is finished by the next call, once, with its count', async () => {
  licensing.active.set(path.planId, 5n)
  licensing.refused.add('archivePlan')
  await expect(changes.archive()).rejects.toMatchObject({
    code: 'unavailable',
    message: expect.stringContaining('is retired; its licences are suspended as soon as'),
  })
  const events = await eventsOf(catalog, tenant)
  expect((await changesOf(catalog, tenant)).at(-1)).toEqual({ planId: path.planId, version: 2n })
  expect(await calls.getPlanCopy(path)).toMatchObject({ status: 'retired', archiveVersion: 2n })
  expect(await outcomeOf(changes.archive())).toBe('unavailable')

  licensing.refused.clear()
  const outcomes = await Promise.allSettled(Array.from({ length: 8 }, changes.archive))
  const done = outcomes.filter((outcome) => outcome.status === 'fulfilled').map(({ value }) => value)
  expect(done).toMatchObject([{ suspendedLicences: 5n, plan: { status: 'retired' } }])
  expect(await outcomeOf(changes.archive())).toBe('conflict')
  expect(await eventsOf(catalog, tenant)).toEqual(events)
})

test('an interrupted restore is finished by the next call; an earlier unfinished archive cannot be continued then', async () => {
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
function holdArchives() {
  const entered = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  licensing.whileArchiving = () => {
    entered.resolve()
    return release.promise
  }
  return { entered, release }
}

test('an archive in progress is not continued by another call', async () => {
  const { entered, release } = holdArchives()
  const first = changes.archive()
  await entered.promise
  expect(await outcomesOf(Array.from({ length: 5 }, changes.archive))).toEqual(Array(5).fill('conflict'))
  release.resolve()
  expect(await first).toMatchObject({ plan: { status: 'retired' } })
})

test('if two calls were in progress, a later failure does not undo the confirmation', async () => {
  const { entered, release } = holdArchives()
  const slow = changes.archive()
  await entered.promise
  // As if the first call had taken longer than the time limit.
  await sql`update plans set unconfirmed_until = clock_timestamp() where id = ${path.planId}`
  licensing.whileArchiving = async () => {}
  expect(await changes.archive()).toMatchObject({ plan: { status: 'retired' } })
  licensing.refused.add('archivePlan')
  release.reject(new Error('cut'))
  expect(await outcomeOf(slow)).not.toBe('ok')
  licensing.refused.clear()
  expect(await outcomeOf(changes.archive())).toBe('conflict')
})

test('a call waits for a licensing service that is being restarted', async () => {
  await licensing.stop()
  expect(await outcomeOf(changes.archive())).toBe('unavailable')
  await licensing.start()
  expect(await outcomeOf(changes.archive())).toBe('ok')
})
