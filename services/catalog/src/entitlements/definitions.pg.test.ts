import { newId } from '@licensing/database/ids'
import { quotas } from '@licensing/proto/quotas'
import { setQuota } from '@licensing/quotas/quota-queries'
import { beforeEach, expect, test } from 'vitest'
import {
  catalogOfFile,
  eventsOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  insertDefinitions,
  outcomeOf,
  outcomesOf,
  resolved,
} from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing, sql } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('the default display name of a definition is its key; the default value is false or 0', async () => {
  const sso = await calls.createEntitlementDefinition({ ...tenant, key: 'sso', kind: 'feature' })
  expect(sso).toMatchObject({ key: 'sso', kind: 'feature', displayName: 'sso', default: 'false' })
  const seats = { ...tenant, key: 'seats', kind: 'limit' }
  expect(await calls.createEntitlementDefinition(seats)).toMatchObject({ displayName: 'seats', default: '0' })
  const full = { ...tenant, key: 'api', kind: 'limit', displayName: 'API calls', default: '-5' }
  const api = await calls.createEntitlementDefinition(full)
  expect(api).toMatchObject({ displayName: 'API calls', default: '-5' })
  const path = { ...tenant, entitlementDefId: api.id }
  expect(await calls.getEntitlementDefinition(path)).toEqual(api)
  const page = await calls.listEntitlementDefinitions({ ...tenant, ...firstPage, limit: 2 })
  expect(page).toMatchObject({ definitions: [{ key: 'api' }, { key: 'seats' }], hasMore: true })
})

test('an invalid definition is refused with every invalid field', async () => {
  const refusal = (definition: object) =>
    outcomeOf(calls.createEntitlementDefinition({ ...tenant, key: 'x', kind: 'limit', ...definition }))
  expect(await refusal({ key: 'Seats' })).toBe('validation_failed /key')
  expect(await refusal({ kind: 'number' })).toBe('validation_failed /kind')
  expect(await refusal({ kind: 'constructor' })).toBe('validation_failed /kind')
  expect(await refusal({ default: 'true' })).toBe('validation_failed /default')
  expect(await refusal({ default: '' })).toBe('validation_failed /default')
  expect(await refusal({ displayName: '' })).toBe('validation_failed /display_name')
  expect(await refusal({ key: '', kind: 'feature', default: '1', displayName: 'x'.repeat(201) })).toBe(
    'validation_failed /key /display_name /default',
  )
  expect((await calls.listEntitlementDefinitions({ ...tenant, ...firstPage })).definitions).toEqual([])
})

test('a key is unique in its application; a deleted key can be defined again only with its former kind', async () => {
  const other = await givenTenant(catalog)
  const define = (kind: string, at = tenant) =>
    calls.createEntitlementDefinition({ ...at, key: 'seats', kind })
  const first = await define('limit')
  for (const kind of ['limit', 'feature']) {
    await expect(define(kind)).rejects.toMatchObject({
      code: 'already_exists',
      message: expect.stringContaining('is defined in this application already'),
    })
  }
  expect(await define('feature', other)).toMatchObject({ kind: 'feature' })

  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: first.id })
  await expect(define('feature')).rejects.toMatchObject({
    code: 'already_exists',
    message: expect.stringContaining('define it as a limit'),
  })
  const again = await define('limit')
  expect(again.id).not.toBe(first.id)
})

test('a new definition, a new default and a deletion change every plan, including retired plans; a recreated definition has no former values', async () => {
  const ids = await givenDefinitions(catalog, tenant, { seats: '1' })
  const pro = await givenPlan(catalog, tenant, 'pro', { seats: '9' })
  const old = await givenPlan(catalog, tenant, 'old')
  await calls.archivePlan({ ...tenant, planId: old.id, actor: 'key_1' })

  const { sso } = await givenDefinitions(catalog, tenant, { sso: 'true' })
  expect(resolved(catalog, pro.id)).toEqual({ seats: '9', sso: 'true' })
  expect(resolved(catalog, old.id)).toEqual({ seats: '1', sso: 'true' })

  await calls.updateEntitlementDefinition({ ...tenant, entitlementDefId: ids.seats!, default: '2' })
  expect(resolved(catalog, pro.id)).toEqual({ seats: '9', sso: 'true' })
  expect(resolved(catalog, old.id)).toEqual({ seats: '2', sso: 'true' })
  const [seats] = licensing.copies.get(pro.id)!.entitlements
  expect(seats).toMatchObject({ key: 'seats', value: '9', default: '2' })

  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: ids.seats! })
  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: sso! })
  expect(resolved(catalog, pro.id)).toEqual({})
  const copy = licensing.copies.get(old.id)
  expect(copy).toMatchObject({ status: 'retired', archivedBy: 'key_1', entitlements: [] })
  expect((await calls.getPlan({ ...tenant, planId: pro.id })).entitlements).toEqual([])
  await givenDefinitions(catalog, tenant, { seats: '4' })
  expect(resolved(catalog, pro.id)).toEqual({ seats: '4' })
})

test('a new display name changes no plan; a default that does not match the kind changes nothing', async () => {
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant)
  const before = await eventsOf(catalog, tenant)
  const path = { ...tenant, entitlementDefId: seats! }
  const renamed = await calls.updateEntitlementDefinition({ ...path, displayName: 'Seats' })
  expect(renamed).toMatchObject({ key: 'seats', displayName: 'Seats', default: '1' })
  const wrong = calls.updateEntitlementDefinition({ ...path, displayName: 'Places', default: 'true' })
  expect(await outcomeOf(wrong)).toBe('validation_failed /default')
  expect(await calls.updateEntitlementDefinition(path)).toEqual(renamed)
  expect(await eventsOf(catalog, tenant)).toEqual(before)
  expect(licensing.copies.get(plan.id)!.version).toBe(1n)
})

test('a definition of another account, one of another application and an unknown one are not found', async () => {
  const otherTenant = await givenTenant(catalog)
  const { id } = await calls.createApplication({ accountId: tenant.accountId, name: 'second' })
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  for (const path of [
    { ...otherTenant, entitlementDefId: seats! },
    { ...tenant, accountId: otherTenant.accountId, entitlementDefId: seats! },
    { ...tenant, applicationId: id, entitlementDefId: seats! },
    { ...tenant, entitlementDefId: newId('ent') },
    { ...tenant, entitlementDefId: 'ent_\0' },
  ]) {
    const attempts = [
      calls.getEntitlementDefinition(path),
      calls.updateEntitlementDefinition({ ...path, displayName: 'x' }),
      calls.deleteEntitlementDefinition(path),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'not_found'))
  }
  expect(await calls.getEntitlementDefinition({ ...tenant, entitlementDefId: seats! })).toMatchObject({
    key: 'seats',
  })
})

test('the copy of a plan can have as many definitions as an operator can allow', async () => {
  await insertDefinitions(
    catalog,
    tenant,
    Array.from({ length: 1999 }, (_, at) => `key_${at}`),
  )
  await setQuota(sql, tenant.accountId, 'entitlement_defs', quotas.entitlement_defs.ceiling)
  await givenDefinitions(catalog, tenant, { last: '1' })
  const plan = await givenPlan(catalog, tenant)
  expect(licensing.copies.get(plan.id)!.entitlements).toHaveLength(2000)
})
