import { newId } from '@licensing/database/ids'
import { beforeEach, expect, test } from 'vitest'
import {
  actor,
  catalogOfFile,
  changesOf,
  firstPage,
  givenDefinitions,
  givenPlan,
  givenTenant,
  outcomeOf,
  outcomesOf,
  planChange,
} from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, licensing } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

test('an application is found only in its account; its owner can be found without the account', async () => {
  const { accountId, applicationId } = tenant
  expect(await calls.getApplication(tenant)).toMatchObject({ id: applicationId, accountId, name: 'Test' })
  expect(await calls.findApplicationOwner({ applicationId })).toMatchObject({ accountId })
  const foreign = { ...(await givenTenant(catalog)), applicationId }
  await expect(calls.getApplication(foreign)).rejects.toMatchObject({
    code: 'not_found',
    message: `there is no application ${applicationId}`,
  })
})

test('a text that is no id is not found, whichever characters it has', async () => {
  const { accountId } = tenant
  for (const applicationId of ['x', 'app_', 'app_\0', '☂'.repeat(100), newId('pln'), newId('app')]) {
    const path = { accountId, applicationId }
    const attempts = [
      calls.getApplication(path),
      calls.findApplicationOwner({ applicationId }),
      calls.listPlans({ ...path, ...firstPage }),
      calls.listEntitlementDefinitions({ ...path, ...firstPage }),
      calls.getPlan({ ...path, planId: newId('pln') }),
      calls.getEntitlementDefinition({ ...path, entitlementDefId: newId('ent') }),
      calls.createPlan({ ...path, fields: { name: 'x', code: 'x' } }),
      calls.createEntitlementDefinition({ ...path, key: 'x', kind: 'limit' }),
      calls.archivePlan({ ...path, planId: newId('pln'), actor }),
      calls.updateApplication({ ...path, name: 'x' }),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'not_found'))
  }
})

test('pages have each application once, newest first, while others are created; the page of a bound key has only its application', async () => {
  const { accountId, applicationId } = tenant
  for (let made = 0; made < 6; made += 1) await calls.createApplication({ accountId, name: `app ${made}` })
  const seen: string[] = []
  let beforeId = ''
  for (let hasMore = true; hasMore;) {
    const page = await calls.listApplications({ accountId, limit: 3, beforeId })
    seen.push(...page.applications.map(({ name }) => name))
    beforeId = page.applications.at(-1)!.id
    hasMore = page.hasMore
    await calls.createApplication({ accountId, name: 'made meanwhile' })
  }
  expect(seen).toEqual(['app 5', 'app 4', 'app 3', 'app 2', 'app 1', 'app 0', 'Test'])
  const page = await calls.listApplications({ accountId, ...firstPage, onlyApplicationId: applicationId })
  expect(page).toMatchObject({ applications: [{ id: applicationId }], hasMore: false })
})

test('a page after a text that is no id is refused', async () => {
  for (const beforeId of ['x', 'nul\0', newId('lic')]) {
    const request = { ...tenant, limit: 0, beforeId }
    const attempts = [
      calls.listApplications(request),
      calls.listApiKeys(request),
      calls.listPlans(request),
      calls.listEntitlementDefinitions(request),
    ]
    expect(await outcomesOf(attempts)).toEqual(attempts.map(() => 'bad_request'))
  }
})

test('an application is created with its root key; while licensing is unavailable, no application is created', async () => {
  const { accountId } = tenant
  const made = await calls.createApplication({ accountId, name: 'one' })
  expect(made.rootKey).toBe(`lrk_${made.id}`)
  const names = async () =>
    (await calls.listApplications({ accountId, ...firstPage })).applications.map(({ name }) => name)
  licensing.refused.add('getRootKeys')
  expect(await outcomeOf(calls.createApplication({ accountId, name: 'two' }))).toBe('unavailable')
  expect(await names()).toEqual(['one', 'Test'])
  licensing.refused.clear()
  await calls.createApplication({ accountId, name: 'two' })
  expect(await names()).toEqual(['two', 'one', 'Test'])
})

test('name and notice of an application can be changed separately; the notice of a new application is 14 days', async () => {
  const path = tenant
  expect(await calls.getApplication(path)).toMatchObject({ name: 'Test', expiringNoticeDays: 14 })
  expect(await calls.updateApplication({ ...path, name: 'Other' })).toMatchObject({
    id: path.applicationId,
    accountId: path.accountId,
    name: 'Other',
    expiringNoticeDays: 14,
  })
  for (const expiringNoticeDays of [0, 90]) {
    const changed = await calls.updateApplication({ ...path, expiringNoticeDays })
    expect(changed).toMatchObject({ name: 'Other', expiringNoticeDays })
    expect(await calls.updateApplication(path)).toEqual(changed)
    expect(await calls.getApplication(path)).toEqual(changed)
    const listed = await calls.listApplications({ accountId: path.accountId, ...firstPage })
    expect(listed.applications).toEqual([changed])
  }
  for (const [change, pointers] of [
    [{ name: '' }, '/name'],
    [{ name: 'x'.repeat(201), expiringNoticeDays: 1 }, '/name'],
    [{ expiringNoticeDays: 91, name: 'x' }, '/expiring_notice_days'],
    [{ expiringNoticeDays: -1, name: '' }, '/name /expiring_notice_days'],
  ] as const) {
    expect(await outcomeOf(calls.updateApplication({ ...path, ...change }))).toBe(
      `validation_failed ${pointers}`,
    )
  }
  expect(await calls.getApplication(path)).toMatchObject({ name: 'Other', expiringNoticeDays: 90 })
  const otherAccount = await givenTenant(catalog)
  const foreign = { ...path, accountId: otherAccount.accountId, name: 'x' }
  expect(await outcomeOf(calls.updateApplication(foreign))).toBe('not_found')
})

test('settings of the customer’s page have defaults; a change leaves the others, and a reset one has its default', async () => {
  const path = tenant
  const defaults = { freesPerDay: 3, offlineDays: 0, keySignIn: false }
  const settingsOf = ({ customerPage }: Awaited<ReturnType<typeof calls.getApplication>>) => {
    const { $typeName: _, ...settings } = customerPage!
    return settings
  }
  const page = async () => settingsOf(await calls.getApplication(path))
  const change = (customerPage: object) => calls.updateApplication({ ...path, customerPage })
  expect(await page()).toEqual(defaults)
  await change({ freesPerDay: 0, accentColor: '#0b6e4f' })
  await change({ keySignIn: true, supportUrl: 'mailto:help@example.com' })
  await calls.updateApplication({ ...path, name: 'Other' })
  const set = {
    freesPerDay: 0,
    accentColor: '#0b6e4f',
    keySignIn: true,
    supportUrl: 'mailto:help@example.com',
  }
  expect(await page()).toEqual({ ...defaults, ...set })
  const found = await calls.findCustomerPage(path)
  expect(found).toMatchObject({ name: 'Other', page: { ...defaults, ...set } })
  // A false and a zero are values.
  await change({ keySignIn: false, offlineDays: 0 })
  expect(await page()).toMatchObject({ ...set, offlineDays: 0, keySignIn: false })
  const changed = await change({ offlineDays: 7, reset: ['frees_per_day', 'accent_color'] })
  expect(settingsOf(changed)).toEqual({
    ...defaults,
    offlineDays: 7,
    keySignIn: false,
    supportUrl: set.supportUrl,
  })
  await change({ reset: ['support_url', 'offline_days', 'key_sign_in', 'frees_per_day', 'accent_color'] })
  expect(await page()).toEqual(defaults)
  expect(await outcomeOf(calls.findCustomerPage({ applicationId: newId('app') }))).toBe('not_found')
})

test('concurrent changes of different settings of the page are all kept', async () => {
  const path = tenant
  const settings = { freesPerDay: 7, offlineDays: 30, keySignIn: true, accentColor: '#123456' }
  await Promise.all(
    Object.entries(settings).map(([field, value], at) =>
      catalog.replicas[at % 2]!.updateApplication({ ...path, customerPage: { [field]: value } }),
    ),
  )
  expect(await calls.getApplication(path)).toMatchObject({ customerPage: settings })
})

test('a changed notice gives every plan of the application a new version, which licensing has before the call is answered', async () => {
  const other = await givenTenant(catalog)
  await givenDefinitions(catalog, tenant, { seats: '1' })
  const plans = [await givenPlan(catalog, tenant, 'a'), await givenPlan(catalog, tenant, 'b')]
  const foreign = await givenPlan(catalog, other)
  const before = await changesOf(catalog, tenant)
  const copies = () => plans.map(({ id }) => licensing.copies.get(id))
  await calls.updateApplication({ ...tenant, name: 'Other' })
  await calls.updateApplication({ ...tenant, expiringNoticeDays: 14 })
  expect(await changesOf(catalog, tenant)).toEqual(before)
  await calls.updateApplication({ ...tenant, expiringNoticeDays: 30 })
  expect(copies()).toMatchObject(plans.map(() => ({ version: 2n, expiringNoticeDays: 30 })))
  expect(licensing.copies.get(foreign.id)).toMatchObject({ version: 1n, expiringNoticeDays: 14 })
  expect(
    (await changesOf(catalog, tenant))
      .slice(before.length)
      .toSorted((a, b) => (a.planId < b.planId ? -1 : 1)),
  ).toEqual(
    plans.map(({ id }) => ({ planId: id, version: 2n })).toSorted((a, b) => (a.planId < b.planId ? -1 : 1)),
  )
  const late = await givenPlan(catalog, tenant, 'c')
  expect(licensing.copies.get(late.id)).toMatchObject({ expiringNoticeDays: 30 })
})

test('if licensing is unavailable a change of the notice is refused and of the name is not; an unfinished change is sent by the next call', async () => {
  const plan = await givenPlan(catalog, tenant)
  licensing.refused.add('countActiveLicences')
  expect(await outcomeOf(calls.updateApplication({ ...tenant, expiringNoticeDays: 3 }))).toBe('unavailable')
  expect(await calls.updateApplication({ ...tenant, name: 'x' })).toMatchObject({ expiringNoticeDays: 14 })
  licensing.refused.clear()

  licensing.refused.add('syncPlans')
  expect(await outcomeOf(calls.updateApplication({ ...tenant, expiringNoticeDays: 3 }))).toBe('unavailable')
  licensing.refused.clear()
  expect(licensing.copies.get(plan.id)?.expiringNoticeDays).toBe(14)
  await calls.updateApplication({ ...tenant, expiringNoticeDays: 3 })
  expect(licensing.copies.get(plan.id)).toMatchObject({ expiringNoticeDays: 3, version: 2n })
})

test('after concurrent changes of the notice and of plans, each copy has the values of the last change', async () => {
  const plan = await givenPlan(catalog, tenant)
  await Promise.all(
    Array.from({ length: 20 }, async (_, at) => {
      const calls = catalog.replicas[at % 2]!
      if (at % 4 < 2) await calls.updateApplication({ ...tenant, expiringNoticeDays: at })
      else await calls.updatePlan({ ...tenant, planId: plan.id, ...planChange({ trialDays: at }) })
    }),
  )
  const [{ expiringNoticeDays }, { trialDays }] = await Promise.all([
    calls.getApplication(tenant),
    calls.getPlan({ ...tenant, planId: plan.id }),
  ])
  expect(licensing.copies.get(plan.id)).toMatchObject({ expiringNoticeDays, trialDays })
})
