import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { actor, firstPage, givenTenant, startTestCatalog, outcomesOf } from '../../test/catalog.ts'

test('an application is found only in its account; its owner can be found without the account', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  const otherTenant = await givenTenant(catalog)
  const { calls } = catalog
  expect(await calls.getApplication({ accountId, applicationId })).toMatchObject({
    id: applicationId,
    accountId,
    name: 'Test',
  })
  expect(await calls.findApplicationOwner({ applicationId })).toMatchObject({ accountId })
  const foreign = { accountId: otherTenant.accountId, applicationId }
  await expect(calls.getApplication(foreign)).rejects.toMatchObject({
    code: 'not_found',
    message: `there is no application ${applicationId}`,
  })
})

test('a text that is no id is not found, whichever characters it has', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  for (const applicationId of ['x', 'app_', 'app_\0', '☂'.repeat(100), newId('pln'), newId('app')]) {
    const path = { accountId, applicationId }
    const attempts = [
      catalog.calls.getApplication(path),
      catalog.calls.findApplicationOwner({ applicationId }),
      catalog.calls.listPlans({ ...path, ...firstPage }),
      catalog.calls.listEntitlementDefinitions({ ...path, ...firstPage }),
      catalog.calls.getPlan({ ...path, planId: newId('pln') }),
      catalog.calls.getEntitlementDefinition({ ...path, entitlementDefId: newId('ent') }),
      catalog.calls.createPlan({ ...path, name: 'x', code: 'x' }),
      catalog.calls.createEntitlementDefinition({ ...path, key: 'x', kind: 'limit' }),
      catalog.calls.archivePlan({ ...path, planId: newId('pln'), actor }),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'not_found'))
  }
})

test('pages have each application once, newest first, while others are created', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { calls } = catalog
  for (let made = 0; made < 6; made += 1) await calls.createApplication({ accountId, name: `app ${made}` })
  const seen: string[] = []
  let page = await calls.listApplications({ accountId, limit: 3, beforeId: '' })
  seen.push(...page.applications.map(({ name }) => name))
  while (page.hasMore) {
    await calls.createApplication({ accountId, name: 'made meanwhile' })
    page = await calls.listApplications({ accountId, limit: 3, beforeId: page.applications.at(-1)!.id })
    seen.push(...page.applications.map(({ name }) => name))
  }
  expect(seen).toEqual(['app 5', 'app 4', 'app 3', 'app 2', 'app 1', 'app 0', 'Test'])
})

test('the page of a bound key has only its application', async () => {
  await using catalog = await startTestCatalog()
  const { accountId, applicationId } = await givenTenant(catalog)
  await catalog.calls.createApplication({ accountId, name: 'other' })
  const page = await catalog.calls.listApplications({
    accountId,
    ...firstPage,
    onlyApplicationId: applicationId,
  })
  expect(page).toMatchObject({ applications: [{ id: applicationId }], hasMore: false })
})

test('a page after a text that is no id is refused', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  for (const beforeId of ['x', 'nul\0', newId('lic')]) {
    const request = { ...tenant, limit: 0, beforeId }
    const attempts = [
      catalog.calls.listApplications(request),
      catalog.calls.listApiKeys(request),
      catalog.calls.listPlans(request),
      catalog.calls.listEntitlementDefinitions(request),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'bad_request'))
  }
})

test('an application is created with its root key; while licensing is unavailable none is created', async () => {
  await using catalog = await startTestCatalog()
  const { accountId } = await givenTenant(catalog)
  const { calls, licensing } = catalog
  const made = await calls.createApplication({ accountId, name: 'one' })
  expect(made.rootKey).toBe(`lrk_${made.id}`)
  const names = async () =>
    (await calls.listApplications({ accountId, ...firstPage })).applications.map(({ name }) => name)
  licensing.refused.add('getRootKeys')
  await expect(calls.createApplication({ accountId, name: 'two' })).rejects.toMatchObject({
    code: 'unavailable',
  })
  expect(await names()).toEqual(['one', 'Test'])
  licensing.refused.clear()
  await calls.createApplication({ accountId, name: 'two' })
  expect(await names()).toEqual(['two', 'one', 'Test'])
})
