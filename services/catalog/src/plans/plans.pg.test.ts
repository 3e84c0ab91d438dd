import { toBinary } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { ListPlansResponseSchema } from '@licensing/proto/catalog'
import { expect, test } from 'vitest'
import {
  actor,
  eventsOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  resolved,
  startTestCatalog,
  outcomeOf,
} from '../../test/catalog.ts'

test('a plan is created with its overrides, and licensing gets a copy with all its entitlements', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const ids = await givenDefinitions(catalog, tenant, { seats: '3', sso: 'false', api: 'true' })
  const plan = await givenPlan(catalog, tenant, 'pro', { sso: 'true', seats: '3' })
  expect(plan).toMatchObject({
    applicationId: tenant.applicationId,
    name: 'pro',
    code: 'pro',
    status: 'active',
    activeLicences: 0n,
    entitlements: [
      { entitlementDefId: ids.seats, value: '3' },
      { entitlementDefId: ids.sso, value: 'true' },
    ],
  })
  const copy = catalog.licensing.copies.get(plan.id)!
  expect(copy).toMatchObject({ ...tenant, status: 'active', version: 1n, archiveVersion: 0n, archivedBy: '' })
  expect(copy.entitlements).toMatchObject([
    { key: 'api', kind: 'feature', value: 'true', default: 'true' },
    { key: 'seats', kind: 'limit', value: '3', default: '3' },
    { key: 'sso', kind: 'feature', value: 'true', default: 'false' },
  ])
  expect(await catalog.calls.getPlan({ ...tenant, planId: plan.id })).toEqual(plan)
})

test('a PATCH changes only the fields that it names; an empty one changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5' })
  const path = { ...tenant, planId: plan.id }
  const before = await eventsOf(catalog.sql)
  expect(await catalog.calls.updatePlan(path)).toEqual(plan)
  const renamed = await catalog.calls.updatePlan({ ...path, name: 'Professional' })
  expect(renamed).toMatchObject({ name: 'Professional', code: 'pro', entitlements: plan.entitlements })
  expect(await eventsOf(catalog.sql)).toEqual(before)
  const recoded = await catalog.calls.updatePlan({ ...path, code: 'pro-2' })
  expect(recoded).toMatchObject({ name: 'Professional', code: 'pro-2', entitlements: plan.entitlements })
  expect(catalog.licensing.copies.get(plan.id)).toMatchObject({ code: 'pro-2', version: 2n })
  expect(await eventsOf(catalog.sql)).toHaveLength(before.length + 1)
  expect(resolved(catalog, plan.id)).toEqual({ seats: '5' })
})

test('the list of a PATCH replaces all overrides; an omitted key has its default again, an empty list clears all', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const ids = await givenDefinitions(catalog, tenant, { seats: '1', sso: 'false', api: '10' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5', sso: 'true' })
  const patch = (overrides: Record<string, string>) =>
    catalog.calls.updatePlan({
      ...tenant,
      planId: plan.id,
      entitlements: { overrides: Object.entries(overrides).map(([key, value]) => ({ key, value })) },
    })
  const changed = await patch({ sso: 'true', api: '99' })
  expect(changed.entitlements).toMatchObject([
    { entitlementDefId: ids.api, value: '99' },
    { entitlementDefId: ids.sso, value: 'true' },
  ])
  expect(resolved(catalog, plan.id)).toEqual({ api: '99', seats: '1', sso: 'true' })
  expect((await patch({})).entitlements).toEqual([])
  expect(resolved(catalog, plan.id)).toEqual({ api: '10', seats: '1', sso: 'false' })
  expect(catalog.licensing.copies.get(plan.id)!.version).toBe(3n)
})

test('an invalid list is refused, and the request changes nothing', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  await givenDefinitions(catalog, tenant, { seats: '1', sso: 'false' })
  const otherTenant = await givenTenant(catalog)
  await givenDefinitions(catalog, otherTenant, { theirs: '1' })
  const plan = await givenPlan(catalog, tenant, 'pro', { seats: '5' })
  const refusals: [[string, string][], string][] = [
    [
      [
        ['seats', '6'],
        ['nope', '1'],
      ],
      '/entitlements/1/key',
    ],
    [[['theirs', '1']], '/entitlements/0/key'],
    [[['nul\0', '1']], '/entitlements/0/key'],
    [
      [
        ['seats', '6'],
        ['sso', 'true'],
        ['seats', '6'],
      ],
      '/entitlements/2/key',
    ],
    [[['seats', '06']], '/entitlements/0/value'],
    [
      [
        ['seats', '6'],
        ['sso', 'yes'],
      ],
      '/entitlements/1/value',
    ],
    [
      [
        ['', ''],
        ['sso', ''],
      ],
      '/entitlements/0/key /entitlements/1/value',
    ],
  ]
  for (const [list, pointers] of refusals) {
    const overrides = list.map(([key, value]) => ({ key, value }))
    const patch = { ...tenant, planId: plan.id, name: 'x', entitlements: { overrides } }
    expect(await outcomeOf(catalog.calls.updatePlan(patch))).toBe(`validation_failed ${pointers}`)
    const made = { ...tenant, name: 'x', code: 'x', entitlements: overrides }
    expect(await outcomeOf(catalog.calls.createPlan(made))).toBe(`validation_failed ${pointers}`)
  }
  expect((await catalog.calls.listPlans({ ...tenant, ...firstPage })).plans).toEqual([plan])
})

test('a name or code that breaks the rules is refused, on create and PATCH', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const plan = await givenPlan(catalog, tenant)
  const made = { ...tenant, name: '', code: 'a b' }
  expect(await outcomeOf(catalog.calls.createPlan(made))).toBe('validation_failed /name /code')
  expect(await outcomeOf(catalog.calls.updatePlan({ ...made, planId: plan.id }))).toBe(
    'validation_failed /name /code',
  )
})

test('a code is unique in its application, including retired plans, on create and PATCH', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const other = await givenTenant(catalog)
  const plan = await givenPlan(catalog, tenant, 'pro')
  await catalog.calls.archivePlan({ ...tenant, planId: plan.id, actor })
  const refused = { code: 'already_exists', message: expect.stringContaining('the plan code pro is in use') }
  await expect(givenPlan(catalog, tenant, 'pro')).rejects.toMatchObject(refused)
  await givenPlan(catalog, other, 'pro')
  const second = await givenPlan(catalog, tenant, 'Pro')
  const patch = { ...tenant, planId: second.id, code: 'pro', name: 'x' }
  await expect(catalog.calls.updatePlan(patch)).rejects.toMatchObject(refused)
  expect(await catalog.calls.getPlan({ ...tenant, planId: second.id })).toEqual(second)
})

test('a page of plans is newest first, can be filtered by status, and has the active licences of each', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const plans = []
  for (const code of ['a', 'b', 'c', 'd']) plans.push(await givenPlan(catalog, tenant, code))
  await catalog.calls.archivePlan({ ...tenant, planId: plans[1]!.id, actor })
  catalog.licensing.active.set(plans[3]!.id, 7n)
  catalog.licensing.active.set(plans[0]!.id, 100_000_000_000n)
  const list = async (request: object) => {
    const { plans, hasMore } = await catalog.calls.listPlans({ ...tenant, ...firstPage, ...request })
    return [
      ...plans.map(({ code, activeLicences }) => `${code}:${activeLicences}`),
      ...(hasMore ? ['more'] : []),
    ]
  }
  expect(await list({})).toEqual(['d:7', 'c:0', 'b:0', 'a:100000000000'])
  expect(await list({ limit: 2 })).toEqual(['d:7', 'c:0', 'more'])
  expect(await list({ limit: 2, beforeId: plans[2]!.id })).toEqual(['b:0', 'a:100000000000'])
  expect(await list({ status: 'active' })).toEqual(['d:7', 'c:0', 'a:100000000000'])
  expect(await list({ status: 'retired' })).toEqual(['b:0'])
  expect(await outcomeOf(list({ status: 'sold' }))).toBe('validation_failed /status')
})

test('a page of plans with very many values is shorter than the limit, and no plan is skipped', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { applicationId } = tenant
  const definitions = Array.from({ length: 500 }, () => newId('ent'))
  const plans = Array.from({ length: 45 }, () => newId('pln'))
  const { sql } = catalog
  await sql`insert into entitlement_keys select ${applicationId}, unnest(${definitions}::text[]), 'limit'`
  await sql`
    insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
    select id, ${applicationId}, id, 'limit', 'x', '0' from unnest(${definitions}::text[]) as id`
  await sql`
    insert into plans (id, application_id, name, code) select id, ${applicationId}, 'x', id
    from unnest(${plans}::text[]) as id`
  await sql`
    insert into plan_overrides (plan_id, definition_id, application_id, value)
    select plan, definition, ${applicationId}, '123456789012345'
    from unnest(${plans}::text[]) as plan, unnest(${definitions}::text[]) as definition`
  const seen: string[] = []
  const sizes: number[] = []
  for (let beforeId = ''; ;) {
    const page = await catalog.calls.listPlans({ ...tenant, limit: 200, beforeId })
    seen.push(...page.plans.map(({ id }) => id))
    sizes.push(toBinary(ListPlansResponseSchema, page).length)
    if (!page.hasMore) break
    beforeId = seen.at(-1)!
  }
  expect(seen).toEqual(plans.toReversed())
  expect(sizes.length).toBeGreaterThan(1)
  expect(Math.max(...sizes)).toBeLessThan(1_200_000)
})

test('a plan of another account, one of another application and an unknown one are not found, by any verb', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const second = await catalog.calls.createApplication({ accountId: tenant.accountId, name: 'second' })
  const plan = await givenPlan(catalog, tenant)
  for (const path of [
    { ...otherTenant, planId: plan.id },
    { ...tenant, accountId: otherTenant.accountId, planId: plan.id },
    { ...tenant, applicationId: second.id, planId: plan.id },
    { ...tenant, planId: newId('pln') },
    { ...tenant, planId: 'pln_\0' },
  ]) {
    expect(await outcomeOf(catalog.calls.getPlan(path))).toBe('not_found')
    expect(await outcomeOf(catalog.calls.updatePlan({ ...path, name: 'x' }))).toBe('not_found')
    expect(await outcomeOf(catalog.calls.archivePlan({ ...path, actor }))).toBe('not_found')
    expect(await outcomeOf(catalog.calls.restorePlan(path))).toBe('not_found')
    expect(await outcomeOf(catalog.calls.getPlanCopy(path))).toBe('not_found')
  }
  expect(await catalog.calls.getPlan({ ...tenant, planId: plan.id })).toEqual(plan)
})
