import { expect, test } from 'vitest'
import { givenDefinitions, givenPlan, givenTenant, resolved, startCatalog } from '../testing/catalog.ts'

test('a plan is created with its overrides and copied to licensing with everything resolved', async () => {
  await using catalog = await startCatalog()
  const tenant = await givenTenant(catalog)
  const ids = await givenDefinitions(catalog, tenant, { seats: '3', sso: 'false', api: 'true' })
  const plan = await givenPlan(catalog, tenant, 'pro', { sso: 'true' })
  expect(plan).toMatchObject({
    applicationId: tenant.applicationId,
    name: 'pro',
    code: 'pro',
    status: 'active',
    activeLicences: 0n,
    entitlements: [{ entitlementDefId: ids.sso, value: 'true' }],
  })
  expect(resolved(catalog, plan.id)).toEqual({ api: 'true', seats: '3', sso: 'true' })
  const archived = await catalog.calls.archivePlan({ ...tenant, planId: plan.id, actor: 'key_x' })
  expect(archived.plan!.status).toBe('retired')
})
