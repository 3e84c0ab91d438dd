import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { keyed } from '@licensing/changes/testing/keyed'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runAdmin } from './admin/run-admin.ts'
import { firstPage, givenTenant, startTestCatalog, outcomeOf, outcomesOf } from '../test/catalog.ts'
import type { Tenant, TestCatalog } from '../test/catalog.ts'

let catalog: TestCatalog
beforeAll(async () => {
  catalog = await startTestCatalog()
})
afterAll(() => catalog[Symbol.asyncDispose]())

type Calls = TestCatalog['calls']

interface Counted {
  option: string
  usual: number
  /** The number that a new tenant has. */
  had: number
  make: (calls: Calls, tenant: Tenant) => Promise<unknown>
  /** Inserts the rows that many calls would create. */
  fill: (
    sql: Database,
    tenant: Tenant,
    ids: (prefix: 'app' | 'key' | 'pln' | 'ent') => string[],
  ) => Promise<unknown>
  count: (sql: Database, tenant: Tenant) => Promise<{ count: number }[]>
}

const unique = () => newId('evt')

const counted: Record<string, Counted> = {
  applications: {
    option: '--applications',
    usual: 100,
    had: 1,
    make: (calls, { accountId }) => calls.createApplication({ accountId, name: 'x' }),
    fill: (sql, { accountId }, ids) => sql`
      insert into applications (id, account_id, name) select unnest(${ids('app')}::text[]), ${accountId}, 'x'`,
    count: (sql, { accountId }) => sql<{ count: number }[]>`
      select count(*)::int as count from applications where account_id = ${accountId}`,
  },
  'API keys': {
    option: '--api-keys',
    usual: 500,
    had: 0,
    make: (calls, { accountId }) => calls.createApiKey({ accountId, name: 'x', scopes: ['read'] }),
    fill: (sql, { accountId }, ids) => sql`
      insert into api_keys (id, account_id, name, key_hash, last_four, scopes)
      select id, ${accountId}, 'x', sha256(id::bytea), 'x', '{read}' from unnest(${ids('key')}::text[]) as id`,
    count: (sql, { accountId }) => sql<{ count: number }[]>`
      select count(*)::int as count from api_keys where account_id = ${accountId} and revoked_at is null`,
  },
  plans: {
    option: '--plans',
    usual: 1_000,
    had: 0,
    make: (calls, tenant) => calls.createPlan({ ...tenant, name: 'x', code: unique(), entitlements: [] }),
    fill: (sql, { applicationId }, ids) => sql`
      insert into plans (id, application_id, name, code) select id, ${applicationId}, 'x', id
      from unnest(${ids('pln')}::text[]) as id`,
    count: (sql, { applicationId }) => sql<{ count: number }[]>`
      select count(*)::int as count from plans where application_id = ${applicationId}`,
  },
  'entitlement definitions': {
    option: '--entitlement-defs',
    usual: 500,
    had: 0,
    make: (calls, tenant) => calls.createEntitlementDefinition({ ...tenant, key: unique(), kind: 'limit' }),
    fill: (sql, { applicationId }, ids) => sql`
      with keys as (
        insert into entitlement_keys select ${applicationId}, unnest(${ids('ent')}::text[]), 'limit' returning key
      )
      insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
      select key, ${applicationId}, key, 'limit', 'x', '0' from keys`,
    count: (sql, { applicationId }) => sql<{ count: number }[]>`
      select count(*)::int as count from entitlement_definitions where application_id = ${applicationId}`,
  },
}

async function allow(option: string, { accountId }: Tenant, max: number): Promise<void> {
  const args = ['set-quota', '--account', accountId, option, String(max)]
  const outcome = await runAdmin(args, { DATABASE_URL: catalog.databaseUrl })
  expect(outcome).toMatchObject({ errors: '', code: 0 })
}

test.each(Object.entries(counted))(
  'if 20 calls on two replicas compete for the last 3 places of %s, 3 succeed',
  async (_what, { option, had, make, count }) => {
    const tenant = await givenTenant(catalog)
    const rivals = await givenTenant(catalog)
    await allow(option, tenant, had + 3)
    const outcomes = await outcomesOf(
      Array.from({ length: 20 }, (_, at) => make(catalog.replicas[at % 2]!, tenant)),
    )
    expect(outcomes.filter((outcome) => outcome === 'ok')).toHaveLength(3)
    expect(outcomes.filter((outcome) => outcome === 'quota_exceeded')).toHaveLength(17)
    expect(await count(catalog.sql, tenant)).toEqual([{ count: had + 3 }])
    await expect(make(catalog.calls, tenant)).rejects.toMatchObject({
      code: 'quota_exceeded',
      members: { limit: had + 3 },
    })
    // Resources of another account are not counted. A raised quota applies at once, on each replica.
    await make(catalog.calls, rivals)
    await allow(option, tenant, had + 4)
    await make(catalog.replicas[1], tenant)
    // Existing resources stay when the quota becomes smaller.
    await allow(option, tenant, 0)
    expect(await outcomeOf(make(catalog.calls, tenant))).toBe('quota_exceeded')
    expect(await count(catalog.sql, tenant)).toEqual([{ count: had + 4 }])
  },
)

test.each(Object.entries(counted))(
  'an account without a changed quota may have the usual number of %s',
  async (_what, { usual, had, make, fill }) => {
    const tenant = await givenTenant(catalog)
    await fill(catalog.sql, tenant, (prefix) => Array.from({ length: usual - had - 1 }, () => newId(prefix)))
    await make(catalog.calls, tenant)
    await expect(make(catalog.calls, tenant)).rejects.toMatchObject({
      code: 'quota_exceeded',
      members: { limit: usual },
    })
  },
)

test.each(Object.entries(counted))(
  'a repetition of the call that took the last place of %s has the same answer',
  async (_what, { option, had, make }) => {
    const tenant = await givenTenant(catalog)
    await allow(option, tenant, had + 1)
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
  for (const option of ['--api-keys', '--entitlement-defs', '--plans']) await allow(option, tenant, 1)
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

  const plan = await calls.createPlan({ ...tenant, name: 'x', code: 'x', entitlements: [] })
  await calls.archivePlan({ ...tenant, planId: plan.id, actor: 'key_1' })
  const more = calls.createPlan({ ...tenant, name: 'y', code: 'y', entitlements: [] })
  expect(await outcomeOf(more)).toBe('quota_exceeded')
  await calls.restorePlan({ ...tenant, planId: plan.id })
})

test('the command creates no key over the quota; an application over the quota leaves no root key in licensing', async () => {
  const { accountId, applicationId } = await givenTenant(catalog)
  await allow('--api-keys', { accountId, applicationId }, 0)
  const made = await runAdmin(['create-key', '--account', accountId, '--name', 'x', '--scopes', 'read'], {
    DATABASE_URL: catalog.databaseUrl,
  })
  expect(made).toMatchObject({ code: 1, output: '' })
  expect(made.errors).toContain('this account may have 0 API keys in force')

  await allow('--applications', { accountId, applicationId }, 1)
  const asked = catalog.licensing.rootKeysMade
  const outcomes = await outcomesOf(
    Array.from({ length: 5 }, () => catalog.calls.createApplication({ accountId, name: 'x' })),
  )
  expect(outcomes).toEqual(Array(5).fill('quota_exceeded'))
  expect(catalog.licensing.rootKeysMade).toBe(asked)
  const { applications } = await catalog.calls.listApplications({ accountId, ...firstPage })
  expect(applications).toHaveLength(1)
})

test.each([
  [[], 2, 'give at least one of --applications, --api-keys, --plans, --entitlement-defs'],
  [['--plans', 'x'], 2, '--plans must be a whole number from 0 to 100000, not x'],
  [['--plans', '-1'], 2, "Option '--plans' argument is ambiguous"],
  [['--entitlement-defs', '2001'], 2, '--entitlement-defs must be a whole number from 0 to 2000'],
  [['--plans', '5'], 1, 'there is no account acct_x'],
  [['--activations', '5', '--plans', '5'], 2, 'set LICENSING_ADDRESS'],
])('set-quota with %j ends with %d and says what is wrong', async (args, code, message) => {
  const { accountId } = await givenTenant(catalog)
  const account = code === 1 ? 'acct_x' : accountId
  const outcome = await runAdmin(['set-quota', '--account', account, ...args], {
    DATABASE_URL: catalog.databaseUrl,
  })
  expect(outcome).toMatchObject({ code, output: '' })
  expect(outcome.errors).toContain(message)
  expect(await catalog.sql`select 1 from account_quotas where account_id = ${accountId}`).toHaveLength(0)
})
