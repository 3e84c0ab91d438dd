import { keyed } from '@licensing/changes/testing/keyed'
import { beforeEach, expect, test } from 'vitest'
import {
  actor,
  catalogOfFile,
  eventsOf,
  givenPlan,
  givenTenant,
  outcomeOf,
  resolved,
} from '../test/catalog.ts'
import type { Tenant, TestCatalog } from '../test/catalog.ts'

const catalog = await catalogOfFile()
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

type Calls = TestCatalog['calls']

/** Every RPC of the catalog that creates a row for a POST of the REST API, and its table. */
const creating: [rpc: string, table: string, call: (calls: Calls, tenant: Tenant) => Promise<object>][] = [
  ['createApplication', 'applications', (calls, tenant) => calls.createApplication({ ...tenant, name: 'x' })],
  [
    'createApiKey',
    'api_keys',
    (calls, { accountId }) => calls.createApiKey({ accountId, name: 'x', scopes: ['read'] }),
  ],
  [
    'createMember',
    'members',
    (calls, { accountId }) => calls.createMember({ accountId, email: 'ann@example.com', role: 'viewer' }),
  ],
  [
    'createEntitlementDefinition',
    'entitlement_definitions',
    (calls, tenant) => calls.createEntitlementDefinition({ ...tenant, key: 'sso', kind: 'feature' }),
  ],
  [
    'createPlan',
    'plans',
    (calls, tenant) => calls.createPlan({ ...tenant, fields: { name: 'x', code: 'x' } }),
  ],
]

test.for(creating)(
  '%s creates one row for 20 concurrent calls with one key, with the same answer',
  async ([rpc, table, create]) => {
    const rows = () => catalog.sql`select from ${catalog.sql(table)}`
    const before = (await rows()).length
    const answers = await Promise.all(
      Array.from({ length: 20 }, (_, at) => keyed(rpc, () => create(catalog.replicas[at % 2]!, tenant))),
    )
    expect(await rows()).toHaveLength(before + 1)
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
    const shown = new Set(answers.map(({ value }) => JSON.stringify(withoutKey(value), bigint)))
    expect(shown.size).toBe(1)
    const other = keyed(rpc, () => create(catalog.calls, tenant), { body: 'other' })
    expect(await outcomeOf(other)).toBe('idempotency_mismatch')
  },
)

function withoutKey(answer: object): object {
  return { ...answer, key: 'apiKey' in answer ? '' : (answer as { key?: string }).key }
}

function bigint(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

test('an API key is shown once: neither the repetition nor the database has it', async () => {
  const create = () =>
    keyed('keys', () => catalog.calls.createApiKey({ ...tenant, name: 'secret', scopes: ['read'] }))
  const { value } = await create()
  expect(value.key).toMatch(/^lsk_/)
  const again = await create()
  expect(again).toMatchObject({ replayed: true, value: { key: '', apiKey: { id: value.apiKey!.id } } })
  const [found] = await catalog.sql`
    select from idempotency_keys where position(${Buffer.from(value.key.slice(11))} in answer) > 0`
  expect(found).toBeUndefined()
})

test('if a definition was saved but not sent to licensing, a repetition sends it and answers with it', async () => {
  const plan = await givenPlan(catalog, tenant, 'synced')
  const define = () =>
    keyed('saved', () =>
      catalog.calls.createEntitlementDefinition({ ...tenant, key: 'seats', kind: 'limit', default: '3' }),
    )
  catalog.licensing.refused.add('syncPlans')
  expect(await outcomeOf(define())).toBe('unavailable')
  expect(resolved(catalog, plan.id)).not.toHaveProperty('seats')
  const events = await eventsOf(catalog, tenant)

  catalog.licensing.refused.clear()
  expect(await define()).toMatchObject({ replayed: true, value: { key: 'seats', default: '3' } })
  expect(resolved(catalog, plan.id)).toHaveProperty('seats', '3')
  expect(await eventsOf(catalog, tenant)).toEqual(events)

  // The call is finished now: a repetition does not call licensing.
  await catalog.licensing.stop()
  expect(await define()).toMatchObject({ replayed: true, value: { key: 'seats' } })
  await catalog.licensing.start()
})

test('if the call of an archive ended before licensing answered, a repetition finishes it at once, with its count', async () => {
  const plan = await givenPlan(catalog, tenant, 'archived')
  catalog.licensing.active.set(plan.id, 5n)
  const archive = (key?: string) =>
    keyed(
      `archive ${plan.id}`,
      () => catalog.calls.archivePlan({ ...tenant, planId: plan.id, actor }),
      key === undefined ? {} : { key },
    )
  catalog.licensing.refused.add('archivePlan')
  expect(await outcomeOf(archive())).toBe('unavailable')
  // As if the process had ended before the refusal arrived: the change is still in progress.
  await catalog.sql`update plans set unconfirmed_until = now() + interval '1 minute' where id = ${plan.id}`
  catalog.licensing.refused.clear()
  expect(await outcomeOf(archive('another'))).toBe('conflict')
  expect(await archive()).toMatchObject({ replayed: true, value: { suspendedLicences: 5n } })
  expect(await archive()).toMatchObject({
    replayed: true,
    value: { suspendedLicences: 5n, plan: { status: 'retired' } },
  })
  expect(await outcomeOf(archive('another'))).toBe('conflict')
})

test('many calls with one key archive or restore once', async () => {
  const { id: planId } = await givenPlan(catalog, tenant, 'verbs')
  catalog.licensing.active.set(planId, 7n)
  const archives = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      keyed('archive', () => catalog.replicas[at % 2]!.archivePlan({ ...tenant, planId, actor })),
    ),
  )
  expect(archives.map(({ value }) => value.suspendedLicences)).toEqual(Array(20).fill(7n))
  const restores = await Promise.all(
    Array.from({ length: 20 }, (_, at) =>
      keyed('restore', () => catalog.replicas[at % 2]!.restorePlan({ ...tenant, planId })),
    ),
  )
  expect(new Set(restores.map(({ value }) => value.status))).toEqual(new Set(['active']))
  expect(await eventsOf(catalog, tenant)).toHaveLength(3)
  expect(await keyed('archive', () => catalog.calls.archivePlan({ ...tenant, planId, actor }))).toMatchObject(
    { replayed: true, value: { plan: { status: 'retired' } } },
  )
  expect(await catalog.calls.getPlan({ ...tenant, planId })).toMatchObject({ status: 'active' })
})
