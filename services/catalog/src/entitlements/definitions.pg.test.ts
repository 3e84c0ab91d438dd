import { newId } from '@licensing/database/ids'
import { quotas } from '@licensing/proto/quotas'
import { setQuota } from '@licensing/quotas/quota-queries'
import { expect, test } from 'vitest'
import {
  eventsOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  resolved,
  startTestCatalog,
  outcomeOf,
} from '../../test/catalog.ts'

test('the default display name of a definition is its key; the default value is false or 0', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { calls } = catalog
  const sso = await calls.createEntitlementDefinition({ ...tenant, key: 'sso', kind: 'feature' })
  expect(sso).toMatchObject({ key: 'sso', kind: 'feature', displayName: 'sso', default: 'false' })
  const seats = { ...tenant, key: 'seats', kind: 'limit' }
  expect(await calls.createEntitlementDefinition(seats)).toMatchObject({ displayName: 'seats', default: '0' })
  const full = { ...tenant, key: 'api', kind: 'limit', displayName: 'API calls', default: '-5' }
  const api = await calls.createEntitlementDefinition(full)
  expect(api).toMatchObject({ displayName: 'API calls', default: '-5' })
  const path = { ...tenant, entitlementDefId: api.id }
  expect(await calls.getEntitlementDefinition(path)).toEqual(api)
  const { definitions, hasMore } = await calls.listEntitlementDefinitions({
    ...tenant,
    ...firstPage,
    limit: 2,
  })
  expect(definitions.map(({ key }) => key)).toEqual(['api', 'seats'])
  expect(hasMore).toBe(true)
})

test('an invalid definition is refused with every invalid field', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const refusal = (definition: object) =>
    outcomeOf(
      catalog.calls.createEntitlementDefinition({ ...tenant, key: 'x', kind: 'limit', ...definition }),
    )
  expect(await refusal({ key: 'Seats' })).toBe('validation_failed /key')
  expect(await refusal({ kind: 'number' })).toBe('validation_failed /kind')
  expect(await refusal({ kind: 'constructor' })).toBe('validation_failed /kind')
  expect(await refusal({ default: 'true' })).toBe('validation_failed /default')
  expect(await refusal({ default: '' })).toBe('validation_failed /default')
  expect(await refusal({ displayName: '' })).toBe('validation_failed /display_name')
  expect(await refusal({ key: '', kind: 'feature', default: '1', displayName: 'x'.repeat(201) })).toBe(
    'validation_failed /key /display_name /default',
  )
  expect((await catalog.calls.listEntitlementDefinitions({ ...tenant, ...firstPage })).definitions).toEqual(
    [],
  )
})

test('a key is unique in its application; a deleted key can be defined again only with its former kind', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const other = await givenTenant(catalog)
  const { calls } = catalog
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

test('a new definition, a new default and a deletion change every plan of the application, including retired plans', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { calls, licensing } = catalog
  const ids = await givenDefinitions(catalog, tenant, { seats: '1' })
  const [pro, old] = [
    await givenPlan(catalog, tenant, 'pro', { seats: '9' }),
    await givenPlan(catalog, tenant, 'old'),
  ]
  await calls.archivePlan({ ...tenant, planId: old.id, actor: 'key_1' })

  const sso = await calls.createEntitlementDefinition({
    ...tenant,
    key: 'sso',
    kind: 'feature',
    default: 'true',
  })
  expect(resolved(catalog, pro.id)).toEqual({ seats: '9', sso: 'true' })
  expect(resolved(catalog, old.id)).toEqual({ seats: '1', sso: 'true' })

  await calls.updateEntitlementDefinition({ ...tenant, entitlementDefId: ids.seats!, default: '2' })
  expect(resolved(catalog, pro.id)).toEqual({ seats: '9', sso: 'true' })
  expect(resolved(catalog, old.id)).toEqual({ seats: '2', sso: 'true' })
  expect(licensing.copies.get(pro.id)!.entitlements[0]).toMatchObject({
    key: 'seats',
    value: '9',
    default: '2',
  })

  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: ids.seats! })
  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: sso.id })
  expect(resolved(catalog, pro.id)).toEqual({})
  expect(licensing.copies.get(old.id)).toMatchObject({
    status: 'retired',
    archivedBy: 'key_1',
    entitlements: [],
  })
  expect((await calls.getPlan({ ...tenant, planId: pro.id })).entitlements).toEqual([])
})

test('a definition that is recreated has no values of plans from before its deletion', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '9' })
  await catalog.calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: seats! })
  await givenDefinitions(catalog, tenant, { seats: '4' })
  expect(resolved(catalog, plan.id)).toEqual({ seats: '4' })
})

test('a new display name changes no plan', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant)
  const before = await eventsOf(catalog.sql)
  const path = { ...tenant, entitlementDefId: seats! }
  const renamed = await catalog.calls.updateEntitlementDefinition({ ...path, displayName: 'Seats' })
  expect(renamed).toMatchObject({ key: 'seats', displayName: 'Seats', default: '1' })
  expect(await catalog.calls.updateEntitlementDefinition(path)).toEqual(renamed)
  expect(await eventsOf(catalog.sql)).toEqual(before)
  expect(catalog.licensing.copies.get(plan.id)!.version).toBe(1n)
})

test('a default that does not match the kind is refused and changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const path = { ...tenant, entitlementDefId: seats! }
  const change = { ...path, displayName: 'Seats', default: 'true' }
  await expect(catalog.calls.updateEntitlementDefinition(change)).rejects.toMatchObject({
    code: 'validation_failed',
    errors: [{ pointer: '/default' }],
  })
  expect(await catalog.calls.getEntitlementDefinition(path)).toMatchObject({
    displayName: 'seats',
    default: '1',
  })
})

test('a definition of another account, one of another application and an unknown one are not found', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const { calls } = catalog
  const { id } = await calls.createApplication({ accountId: tenant.accountId, name: 'second' })
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  for (const path of [
    { ...otherTenant, entitlementDefId: seats! },
    { ...tenant, accountId: otherTenant.accountId, entitlementDefId: seats! },
    { ...tenant, applicationId: id, entitlementDefId: seats! },
    { ...tenant, entitlementDefId: newId('ent') },
    { ...tenant, entitlementDefId: 'ent_\0' },
  ]) {
    await expect(calls.getEntitlementDefinition(path)).rejects.toMatchObject({ code: 'not_found' })
    const change = calls.updateEntitlementDefinition({ ...path, displayName: 'x' })
    await expect(change).rejects.toMatchObject({ code: 'not_found' })
    await expect(calls.deleteEntitlementDefinition(path)).rejects.toMatchObject({ code: 'not_found' })
  }
  expect(await calls.getEntitlementDefinition({ ...tenant, entitlementDefId: seats! })).toMatchObject({
    key: 'seats',
  })
})

test('the copy of a plan can have as many definitions as an operator can allow', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { applicationId } = tenant
  const keys = Array.from({ length: 1999 }, (_, at) => `key_${at}`)
  await catalog.sql`insert into entitlement_keys select ${applicationId}, unnest(${keys}::text[]), 'limit'`
  await catalog.sql`
    insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
    select unnest(${keys.map(() => newId('ent'))}::text[]), ${applicationId}, unnest(${keys}::text[]), 'limit', 'x', '0'`
  await setQuota(catalog.sql, tenant.accountId, 'entitlement_defs', quotas.entitlement_defs.ceiling)
  await givenDefinitions(catalog, tenant, { last: '1' })
  const plan = await givenPlan(catalog, tenant)
  expect(catalog.licensing.copies.get(plan.id)!.entitlements).toHaveLength(2000)
})
