import { newId } from '@licensing/database/ids'
import { keyed } from '@licensing/changes/testing/keyed'
import { expect, test } from 'vitest'
import { runAdmin } from './admin/run-admin.ts'
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

type Calls = TestCatalog['calls']

interface Counted {
  /** The rows of a tenant, none of which is revoked. */
  rows: (tenant: Tenant) => Promise<{ length: number }>
  option: string
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
    option: '--applications',
    usual: 100,
    had: 1,
    make: (calls, { accountId }) => calls.createApplication({ accountId, name: 'x' }),
    fill: ({ accountId }, count) => catalog.sql`
      insert into applications (id, account_id, name) select unnest(${uniques(count)}::text[]), ${accountId}, 'x'`,
  },
  'API keys': {
    rows: ({ accountId }) => catalog.sql`select from api_keys where account_id = ${accountId}`,
    option: '--api-keys',
    usual: 500,
    had: 0,
    make: (calls, { accountId }) => calls.createApiKey({ accountId, name: 'x', scopes: ['read'] }),
    fill: ({ accountId }, count) => catalog.sql`
      insert into api_keys (id, account_id, name, key_hash, last_four, scopes)
      select id, ${accountId}, 'x', sha256(id::bytea), 'x', '{read}' from unnest(${uniques(count)}::text[]) as id`,
  },
  plans: {
    rows: ({ applicationId }) => catalog.sql`select from plans where application_id = ${applicationId}`,
    option: '--plans',
    usual: 1_000,
    had: 0,
    make: (calls, tenant) => calls.createPlan({ ...tenant, name: 'x', code: unique(), entitlements: [] }),
    fill: (tenant, count) => insertPlans(catalog, tenant, count),
  },
  'entitlement definitions': {
    rows: ({ applicationId }) =>
      catalog.sql`select from entitlement_definitions where application_id = ${applicationId}`,
    option: '--entitlement-defs',
    usual: 500,
    had: 0,
    make: (calls, tenant) => calls.createEntitlementDefinition({ ...tenant, key: unique(), kind: 'limit' }),
    fill: (tenant, count) => insertDefinitions(catalog, tenant, uniques(count)),
  },
}

async function allow(option: string, { accountId }: Tenant, max: number): Promise<void> {
  const args = ['set-quota', '--account', accountId, option, String(max)]
  const outcome = await runAdmin(args, { DATABASE_URL: catalog.databaseUrl })
  expect(outcome).toMatchObject({ errors: '', code: 0 })
}

test.each(Object.entries(counted))(
  'if 20 calls on two replicas compete for the last 3 places of %s, 3 succeed',
  async (_what, { option, had, make, rows }) => {
    const tenant = await givenTenant(catalog)
    const rivals = await givenTenant(catalog)
    await allow(option, tenant, had + 3)
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
    await allow(option, tenant, had + 4)
    await make(catalog.replicas[1], tenant)
    // Existing resources stay when the quota becomes smaller.
    await allow(option, tenant, 0)
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
