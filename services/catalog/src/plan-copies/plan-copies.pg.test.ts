import { toBinary } from '@bufbuild/protobuf'
import { timestampFromMs } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { expect, test } from 'vitest'
import {
  actor,
  changesOf,
  eventsOf,
  givenDefinitions,
  givenPlan,
  givenTenant,
  startTestCatalog,
} from '../../test/catalog.ts'
import type { TestCatalog, Tenant } from '../../test/catalog.ts'

test('the copies of the plans of all accounts are listed in pages, each once', async () => {
  await using catalog = await startTestCatalog()
  const made: string[] = []
  for (const tenant of [await givenTenant(catalog), await givenTenant(catalog)]) {
    await givenDefinitions(catalog, tenant, { seats: '2' })
    for (const code of ['a', 'b', 'c']) made.push((await givenPlan(catalog, tenant, code)).id)
  }
  const seen: string[] = []
  let page = await catalog.calls.listPlanCopies({ afterId: '', limit: 4 })
  for (;;) {
    seen.push(...page.plans.map(({ id }) => id))
    for (const copy of page.plans) expect(copy.entitlements).toMatchObject([{ key: 'seats', value: '2' }])
    if (!page.hasMore) break
    page = await catalog.calls.listPlanCopies({ afterId: page.plans.at(-1)!.id, limit: 4 })
  }
  expect(seen).toEqual(made)
})

test('a copy is found only in its account and application', async () => {
  await using catalog = await startTestCatalog()
  const tenant = await givenTenant(catalog)
  const { id: planId } = await givenPlan(catalog, tenant)
  const copy = await catalog.calls.getPlanCopy({ ...tenant, planId })
  expect(copy).toMatchObject({ ...tenant, id: planId })
  const otherTenant = await givenTenant(catalog)
  for (const change of [
    { accountId: otherTenant.accountId },
    { applicationId: otherTenant.applicationId },
    otherTenant,
  ]) {
    const foreign = { ...tenant, ...change, planId }
    await expect(catalog.calls.getPlanCopy(foreign)).rejects.toMatchObject({ code: 'not_found' })
  }
})

/** An application with 700 definitions and 120 plans. Its copies take about 7 MB. */
async function givenLargeApplication(catalog: TestCatalog): Promise<Tenant & { seats: string }> {
  const tenant = await givenTenant(catalog)
  const { applicationId } = tenant
  const { seats } = await givenDefinitions(catalog, tenant, { seats: '1' })
  const keys = Array.from({ length: 700 }, (_, at) => `${'k'.repeat(55)}_${at}`)
  const plans = Array.from({ length: 120 }, () => newId('pln'))
  await catalog.sql`insert into entitlement_keys select ${applicationId}, unnest(${keys}::text[]), 'limit'`
  await catalog.sql`
    insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
    select unnest(${keys.map(() => newId('ent'))}::text[]), ${applicationId}, unnest(${keys}::text[]), 'limit', 'x',
      '123456789012345'`
  await catalog.sql`
    insert into plans (id, application_id, name, code) select id, ${applicationId}, 'x', id
    from unnest(${plans}::text[]) as id`
  return { ...tenant, seats: seats! }
}

test('a change of very many plans names all of them in one small event, and sends all copies to licensing', async () => {
  await using catalog = await startTestCatalog()
  const { seats, ...tenant } = await givenLargeApplication(catalog)
  const change = { ...tenant, entitlementDefId: seats, default: '2' }
  await catalog.calls.updateEntitlementDefinition(change)
  const [event, ...others] = await eventsOf(catalog.sql)
  expect(others).toEqual([])
  expect(toBinary(EventSchema, event!).length).toBeLessThan(10_000)
  const changed = await changesOf(catalog.sql)
  expect(changed).toHaveLength(120)
  for (const { planId, version } of changed) {
    expect(version).toBe(2n)
    const copy = catalog.licensing.copies.get(planId)
    expect(copy?.version).toBe(2n)
    expect(copy?.entitlements).toHaveLength(701)
    expect(copy?.entitlements.find(({ key }) => key === 'seats')?.default).toBe('2')
  }
})

// All events get this time, because the encoded size of a time differs.
const occurredAt = timestampFromMs(1_800_000_000_999)
const sizesOf = (events: Event[]) =>
  events.map((event) => toBinary(EventSchema, { ...event, occurredAt }).length)

test('the event of a plan has the plan and its version, and the same size with 500 definitions as with one', async () => {
  await using catalog = await startTestCatalog()
  const small = await givenTenant(catalog)
  await givenDefinitions(catalog, small, { seats: '1' })
  const large = await givenTenant(catalog)
  const { applicationId } = large
  const { seats } = await givenDefinitions(catalog, large, { seats: '1' })
  const keys = Array.from({ length: 499 }, (_, at) => `${'k'.repeat(55)}_${at}`)
  await catalog.sql`insert into entitlement_keys select ${applicationId}, unnest(${keys}::text[]), 'limit'`
  await catalog.sql`
    insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
    select unnest(${keys.map(() => newId('ent'))}::text[]), ${applicationId}, unnest(${keys}::text[]), 'limit', 'x',
      '123456789012345'`

  /** Creates, updates, archives and restores a plan, and returns the sizes of its events. */
  const live = async (tenant: Tenant) => {
    const before = (await eventsOf(catalog.sql)).length
    const plan = await givenPlan(catalog, tenant, 'pro', { seats: '2' })
    const of = { ...tenant, planId: plan.id }
    await catalog.calls.updatePlan({ ...of, entitlements: { overrides: [{ key: 'seats', value: '3' }] } })
    await catalog.calls.archivePlan({ ...of, actor })
    await catalog.calls.restorePlan(of)
    const events = (await eventsOf(catalog.sql)).slice(before)
    expect(events.map(({ payload }) => payload.value)).toMatchObject(
      [1n, 2n, 3n, 4n].map((version) => ({ changed: [{ planId: plan.id, version }] })),
    )
    expect(catalog.licensing.copies.get(plan.id)?.version).toBe(4n)
    return sizesOf(events)
  }
  const [sizes, others] = [await live(large), await live(small)]
  // The ids and times in the events differ by a few bytes.
  sizes.forEach((size, at) => expect(Math.abs(size - others[at]!)).toBeLessThan(10))
  expect(Math.max(...sizes)).toBeLessThan(250)

  // The event of a changed definition names every plan, without their entitlements.
  for (const code of ['a', 'b', 'c', 'd']) await givenPlan(catalog, large, code)
  await catalog.calls.updateEntitlementDefinition({ ...large, entitlementDefId: seats!, default: '9' })
  const last = (await eventsOf(catalog.sql)).at(-1)!
  const [size] = sizesOf([last])
  expect(size).toBeLessThan(200 + 5 * 50)
  expect(last.payload.value).toMatchObject({ changed: { length: 5 } })
  expect(
    [...catalog.licensing.copies.values()].filter((copy) => copy.applicationId === applicationId),
  ).toSatisfy(
    (copies: PlanCopy[]) =>
      copies.length === 5 && copies.every(({ entitlements }) => entitlements.length === 500),
  )
})

test('a page of large copies ends at the size limit of a message', async () => {
  await using catalog = await startTestCatalog()
  await givenLargeApplication(catalog)
  const seen = new Set<string>()
  let pages = 0
  let afterId = ''
  for (;;) {
    const page = await catalog.calls.listPlanCopies({ afterId, limit: 200 })
    pages += 1
    for (const { id } of page.plans) seen.add(id)
    if (!page.hasMore) break
    afterId = page.plans.at(-1)!.id
  }
  expect(seen.size).toBe(120)
  expect(pages).toBeGreaterThan(1)
})
