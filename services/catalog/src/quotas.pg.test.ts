import { newId } from '@licensing/database/ids'
import { keyed } from '@licensing/changes/testing/keyed'
import { connectTo } from '@licensing/grpc/client'
import type { Quota } from '@licensing/proto/closed-sets'
import { QuotaService } from '@licensing/proto/quota-service'
import { afterAll, expect, test } from 'vitest'
import {
  catalogOfFile,
  firstPage,
  givenTenant,
  insertDefinitions,
  insertPlans,
  outcomeOf,
  outcomesOf,
} from '../test/catalog.ts'
import type { Tenant, TestCatalog } from '../test/catalog.ts'

const catalog = await catalogOfFile()
const operator = connectTo(QuotaService, catalog.address)
afterAll(() => operator.close())

type Calls = TestCatalog['calls']

interface Counted {
  /** The rows of a tenant, none of which is revoked. */
  rows: (tenant: Tenant) => Promise<{ length: number }>
  quota: Quota
  usual: number
  /** The number that a new tenant has. */
  had: number
  make: (calls: Calls, tenant: Tenant) => Promise<unknown>
  /** Inserts the rows that many calls would create. */
  fill: (tenant: Tenant, count: number) => Promise<unknown>
}

const unique = () => newId('evt')
const uniques = (count: number) => Array.from({ length: count }, unique)

const counted: Record<string, Counted> = {
  applications: {
    rows: ({ accountId }) => catalog.sql`select from applications where account_id = ${accountId}`,
    quota: 'applications',
    usual: 100,
    had: 1,
    make: (calls, { accountId }) => calls.createApplication({ accountId, name: 'x' }),
    fill: ({ accountId }, count) => catalog.sql`
      insert into applications (id, account_id, name) select unnest(${uniques(count)}::text[]), ${accountId}, 'x'`,
  },
  'API keys': {
    rows: ({ accountId }) => catalog.sql`select from api_keys where account_id = ${accountId}`,
    quota: 'api_keys',
    usual: 500,
    had: 0,
    make: (calls, { accountId }) => calls.createApiKey({ accountId, name: 'x', scopes: ['read'] }),
    fill: ({ accountId }, count) => catalog.sql`
      insert into api_keys (id, account_id, name, key_hash, last_four, scopes)
      select id, ${accountId}, 'x', sha256(id::bytea), 'x', '{read}' from unnest(${uniques(count)}::text[]) as id`,
  },
  members: {
    rows: ({ accountId }) => catalog.sql`select from members where account_id = ${accountId}`,
    quota: 'members',
    usual: 500,
    had: 0,
    make: (calls, { accountId }) =>
      calls.createMember({ accountId, email: `${unique()}@example.com`, role: 'viewer' }),
    fill: ({ accountId }, count) => catalog.sql`
      insert into members (id, account_id, email, role)
      select id, ${accountId}, id, 'viewer' from unnest(${uniques(count)}::text[]) as id`,
  },
  plans: {
    rows: ({ applicationId }) => catalog.sql`select from plans where application_id = ${applicationId}`,
    quota: 'plans',
    usual: 1_000,
    had: 0,
    make: (calls, tenant) => calls.createPlan({ ...tenant, fields: { name: 'x', code: unique() } }),
    fill: (tenant, count) => insertPlans(catalog, tenant, count),
  },
  'entitlement definitions': {
    rows: ({ applicationId }) =>
      catalog.sql`select from entitlement_definitions where application_id = ${applicationId}`,
    quota: 'entitlement_defs',
    usual: 500,
    had: 0,
    make: (calls, tenant) => calls.createEntitlementDefinition({ ...tenant, key: unique(), kind: 'limit' }),
    fill: (tenant, count) => insertDefinitions(catalog, tenant, uniques(count)),
  },
}

async function allow(quota: Quota, { accountId }: Tenant, max: number): Promise<void> {
  await operator.calls.setQuota({ accountId, quota, max: BigInt(max) })
}

test.each(Object.entries(counted))(
  'if 20 calls on two replicas compete for the last 3 places of %s, 3 succeed',
  async (_what, { quota, had, make, rows }) => {
    const tenant = await givenTenant(catalog)
    const rivals = await givenTenant(catalog)
    await allow(quota, tenant, had + 3)
    const outcomes = await outcomesOf(
      Array.from({ length: 20 }, (_, at) => make(catalog.replicas[at % 2]!, tenant)),
    )
    expect(outcomes.filter((outcome) => outcome === 'ok')).toHaveLength(3)
    expect(outcomes.filter((outcome) => outcome === 'quota_exceeded')).toHaveLength(17)
    expect(await rows(tenant)).toHaveLength(had + 3)
    await expect(make(catalog.calls, tenant)).rejects.toMatchObject({
      code: 'quota_exceeded',
      members: { limit: had + 3 },
    })
    // Resources of another account are not counted. A raised quota applies at once, on each replica.
    await make(catalog.calls, rivals)
    await allow(quota, tenant, had + 4)
    await make(catalog.replicas[1], tenant)
    // Existing resources stay when the quota becomes smaller.
    await allow(quota, tenant, 0)
    expect(await outcomeOf(make(catalog.calls, tenant))).toBe('quota_exceeded')
    expect(await rows(tenant)).toHaveLength(had + 4)
  },
)

test.each(Object.entries(counted))(
  'an account without a changed quota may have the usual number of %s',
  async (_what, { usual, had, make, fill }) => {
    const tenant = await givenTenant(catalog)
    await fill(tenant, usual - had - 1)
    await make(catalog.calls, tenant)
    await expect(make(catalog.calls, tenant)).rejects.toMatchObject({
      code: 'quota_exceeded',
      members: { limit: usual },
    })
  },
)

test.each(Object.entries(counted))(
  'a repetition of the call that took the last place of %s has the same answer',
  async (_what, { quota, had, make }) => {
    const tenant = await givenTenant(catalog)
    await allow(quota, tenant, had + 1)
    const asked = await Promise.all(
      Array.from({ length: 10 }, (_, at) =>
        keyed('/path', () => make(catalog.replicas[at % 2]!, tenant), { key: 'one' }),
      ),
    )
    expect(asked.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(await outcomeOf(keyed('/path', () => make(catalog.calls, tenant), { key: 'two' }))).toBe(
      'quota_exceeded',
    )
    expect(await keyed('/path', () => make(catalog.calls, tenant), { key: 'one' })).toMatchObject({
      replayed: true,
    })
  },
)

test('a revoked key and a deleted definition no longer count; a retired plan does', async () => {
  const tenant = await givenTenant(catalog)
  const { calls } = catalog
  const { accountId } = tenant
  for (const quota of ['api_keys', 'entitlement_defs', 'plans'] as const) await allow(quota, tenant, 1)
  const key = () => calls.createApiKey({ accountId, name: 'x', scopes: ['read'] })
  const { apiKey } = await key()
  expect(await outcomeOf(key())).toBe('quota_exceeded')
  await calls.revokeApiKey({ accountId, keyId: apiKey!.id })
  expect(await outcomesOf([key(), key()])).toContain('ok')

  const definition = () => calls.createEntitlementDefinition({ ...tenant, key: 'one', kind: 'limit' })
  const { id } = await definition()
  const other = calls.createEntitlementDefinition({ ...tenant, key: 'two', kind: 'limit' })
  expect(await outcomeOf(other)).toBe('quota_exceeded')
  await calls.deleteEntitlementDefinition({ ...tenant, entitlementDefId: id })
  await definition()

  const plan = await calls.createPlan({ ...tenant, fields: { name: 'x', code: 'x' } })
  await calls.archivePlan({ ...tenant, planId: plan.id, actor: 'key_1' })
  const more = calls.createPlan({ ...tenant, fields: { name: 'y', code: 'y' } })
  expect(await outcomeOf(more)).toBe('quota_exceeded')
  await calls.restorePlan({ ...tenant, planId: plan.id })
})

test('an application over the quota leaves no root key in licensing', async () => {
  const { accountId, applicationId } = await givenTenant(catalog)
  await allow('applications', { accountId, applicationId }, 1)
  const asked = catalog.licensing.rootKeysMade
  const outcomes = await outcomesOf(
    Array.from({ length: 5 }, () => catalog.calls.createApplication({ accountId, name: 'x' })),
  )
  expect(outcomes).toEqual(Array(5).fill('quota_exceeded'))
  expect(catalog.licensing.rootKeysMade).toBe(asked)
  const { applications } = await catalog.calls.listApplications({ accountId, ...firstPage })
  expect(applications).toHaveLength(1)
})
