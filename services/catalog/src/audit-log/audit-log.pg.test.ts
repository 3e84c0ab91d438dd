import { create } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { idOf, newId, timeOf } from '@licensing/database/ids'
import { transaction } from '@licensing/database/transaction'
import type { Received } from '@licensing/events/consumer-options'
import { createLogger } from '@licensing/process/log'
import type { AuditLogEntry } from '@licensing/proto/catalog'
import { EventSchema } from '@licensing/proto/events'
import { failWrites } from '@licensing/test-support/failing-writes'
import { eventually } from '@licensing/test-support/poll'
import { expect, test } from 'vitest'
import { catalogOfFile, entriesOf, givenPlan, givenTenant, outcomesOf } from '../../test/catalog.ts'
import { consumeEntries, startDeletingEntries } from './audit-log.ts'

const catalog = await catalogOfFile()
const { calls, sql } = catalog

const newAccount = () => ({ accountId: newId('acct') })

function entry(accountId: string, fields: object = {}): Received {
  const value = { actor: 'key_1', operation: 'createPlan', resourceId: 'pln_1', changes: '{}', ...fields }
  const event = create(EventSchema, {
    id: newId('evt'),
    accountId,
    occurredAt: timestampFromDate(new Date()),
    requestId: 'request',
    payload: { case: 'auditEntry', value },
  })
  return { event, payload: new Uint8Array(), traceParent: undefined }
}

const consume = (...received: Received[]) => transaction(sql, (tx) => consumeEntries(tx, received))

/** All entries, page by page, and how many pages there were. */
async function walk(accountId: string, filter: object = {}, limit = 200) {
  const entries: AuditLogEntry[] = []
  let beforeId = ''
  for (let pages = 1; ; pages += 1) {
    const page = await calls.listAuditLog({ accountId, limit, beforeId, ...filter })
    entries.push(...page.entries)
    if (!page.hasMore) return { entries, pages }
    beforeId = page.lookedUntil ?? page.entries.at(-1)!.id
  }
}

test('an event that arrives again is no second entry, and other events are none', async () => {
  const { accountId } = newAccount()
  const one = entry(accountId)
  const payload = { case: 'webhookTest', value: { ping: true } } as const
  const other = create(EventSchema, { id: newId('evt'), accountId, payload })
  await consume(one, { ...one, event: other })
  await consume(one)
  const { entries } = await walk(accountId)
  expect(entries).toMatchObject([
    { actor: 'key_1', operation: 'createPlan', resourceId: 'pln_1', changes: '{}', requestId: 'request' },
  ])
  expect(entries[0]!.id.slice(3)).toBe(one.event.id.slice(3))
  expect(entries[0]!.at).toEqual(timestampFromDate(timeOf(one.event.id)))
})

test('entries of two operations are found by both filters, however many others lie between', async () => {
  const { accountId } = newAccount()
  const rare = { operation: 'rare' }
  await consume(entry(accountId, rare))
  await sql`
    insert into audit_log (id, account_id, actor, operation, resource_id, changes)
    select id, ${accountId}, 'key_1', 'usual', 'pln_1', '{}' from unnest(${Array.from({ length: 11_000 }, () => newId('aud'))}::text[]) as id`
  await consume(entry(accountId, rare), entry(accountId, { ...rare, actor: 'key_2' }))
  expect((await walk(accountId, rare)).entries).toHaveLength(3)
  const found = await walk(accountId, { actor: 'key_1', ...rare })
  expect(found.entries.map(({ actor }) => actor)).toEqual(['key_1', 'key_1'])
  // A page looks at 5,000 entries at most.
  const narrow = await walk(accountId, { actor: 'key_1', applicationId: newId('app') })
  expect(narrow.entries).toEqual([])
  expect(narrow.pages).toBe(3)
})

test('a page of large entries is shorter than its limit, and no entry is skipped', async () => {
  const { accountId } = newAccount()
  const changes = JSON.stringify({ metadata: { from: null, to: 'x'.repeat(300_000) } })
  for (let made = 0; made < 10; made += 1) await consume(entry(accountId, { changes }))
  const { entries, pages } = await walk(accountId)
  expect(new Set(entries.map(({ id }) => id)).size).toBe(10)
  expect(pages).toBe(3)
})

test('entries are kept for 400 days', async () => {
  const { accountId } = newAccount()
  const day = 86_400_000
  const idsOf = (days: number, count: number) =>
    Array.from({ length: count }, (_, at) => idOf('aud', new Date(Date.now() - days * day), BigInt(at + 1)))
  const kept = idsOf(399.9, 3)
  await sql`
    insert into audit_log (id, account_id, actor, operation, resource_id, changes)
    select id, ${accountId}, 'key_1', 'usual', 'pln_1', '{}' from unnest(${[...kept, ...idsOf(400.1, 2_500)]}::text[]) as id`
  const deleting = startDeletingEntries({ sql, log: createLogger('catalog', 'silent') })
  await eventually(async () => {
    const rows = await sql<
      { id: string }[]
    >`select id from audit_log where account_id = ${accountId} order by id`
    expect(rows.map(({ id }) => id)).toEqual(kept.toSorted())
  })
  await deleting.stop()
})

test('an entry is there if and only if its change is: if one of both cannot be written, neither is', async () => {
  const tenant = await givenTenant(catalog)
  const plan = await givenPlan(catalog, tenant)
  const definition = { ...tenant, key: 'seats', kind: 'limit' }
  const { id: entitlementDefId } = await calls.createEntitlementDefinition({ ...definition, key: 'export' })
  const { apiKey } = await calls.createApiKey({
    ...tenant,
    applicationId: undefined,
    name: 'x',
    scopes: ['read'],
  })
  const path = { ...tenant, planId: plan.id }
  const change = () =>
    outcomesOf([
      calls.updateAccount({ accountId: tenant.accountId, name: 'Changed' }),
      calls.createApplication({ accountId: tenant.accountId, name: 'Another' }),
      calls.updateApplication({ ...tenant, name: 'Changed' }),
      calls.createApiKey({ ...tenant, applicationId: undefined, name: 'y', scopes: ['read'] }),
      calls.revokeApiKey({ accountId: tenant.accountId, keyId: apiKey!.id }),
      calls.createEntitlementDefinition(definition),
      calls.updateEntitlementDefinition({ ...tenant, entitlementDefId, displayName: 'Changed' }),
      calls.archivePlan({ ...path, actor: 'key_1' }),
    ])
  const state = async () => {
    const tables = ['accounts', 'applications', 'api_keys', 'entitlement_definitions', 'plans', 'outbox']
    const texts = tables.map((table) => `(select string_agg(t::text, ',' order by t::text) from ${table} t)`)
    return sql.unsafe(`select ${texts.join(', ')}`)
  }
  const before = await state()
  const { length } = await entriesOf(catalog, tenant)
  const disk = await failWrites(sql, 'outbox', '53100')
  expect(await change()).not.toContain('ok')
  expect(await state()).toEqual(before)
  await disk.end()
  const tables = ['accounts', 'applications', 'api_keys', 'entitlement_definitions', 'plans']
  const others = await Promise.all(tables.map((table) => failWrites(sql, table, '53100')))
  expect(await change()).not.toContain('ok')
  expect(await state()).toEqual(before)
  for (const other of others) await other.end()
  expect(new Set(await change())).toEqual(new Set(['ok']))
  expect(await entriesOf(catalog, tenant)).toHaveLength(length + 8)
})
