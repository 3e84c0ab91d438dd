import { fromBinary } from '@bufbuild/protobuf'
import type { Message } from '@bufbuild/protobuf'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { noNats } from '@licensing/events/testing/no-nats'
import { connectTo } from '@licensing/grpc/client'
import type { RequestOf, ServiceClient } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService, PlanFieldsSchema } from '@licensing/proto/catalog'
import type { Plan } from '@licensing/proto/catalog'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { EventSchema } from '@licensing/proto/events'
import type { Event } from '@licensing/proto/events'
import { LicensingService } from '@licensing/proto/licensing'
import { RootKeyService } from '@licensing/proto/root-keys'
import { createTestDatabase } from '@licensing/test-support/database'
import { afterAll, afterEach } from 'vitest'
import { insertAccount } from '../src/accounts/account-queries.ts'
import type { ConfirmationSender } from '../src/accounts/alert-email.ts'
import { startCatalog } from '../src/catalog.ts'
import { catalogMigrations } from '../src/tables.ts'
import { startLicensingStub } from './licensing-stub.ts'
import type { LicensingStub } from './licensing-stub.ts'
import { notifierStub } from './notifier-stub.ts'
import type { NotifierStub } from './notifier-stub.ts'

export const newAccountFee = { bps: 250, fixedMinor: 30n }

type Calls = ServiceClient<typeof CatalogService>

/** The service on a database of its own, called through gRPC like by the gateway. Its events stay in the outbox. */
export interface TestCatalog {
  readonly calls: Calls
  /** Two replicas on one database; `calls` is the first. */
  readonly replicas: [Calls, Calls]
  readonly sql: Database
  /** The address of the first replica. */
  readonly address: string
  readonly licensing: LicensingStub
  readonly notifier: NotifierStub
  /** Makes both replicas look for mails that are due, instead of after some seconds. */
  lookForMails(): void
}

/** A catalog for all tests of a file. After each test licensing and the notifier answer again. */
export async function catalogOfFile(): Promise<TestCatalog> {
  await using starting = new AsyncDisposableStack()
  const database = starting.use(await createTestDatabase())
  const sql = connect(database.url, { name: 'catalog-test', max: 20 })
  starting.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, catalogMigrations)
  const licensing = starting.use(await startLicensingStub())
  const notifier = notifierStub()
  const one = await startReplica(starting, sql, licensing.address, notifier)
  const other = await startReplica(starting, sql, licensing.address, notifier)
  const running = starting.move()
  afterEach(async () => {
    notifier.recover()
    await licensing.recover()
  })
  afterAll(() => running.disposeAsync())
  return {
    calls: one.calls,
    replicas: [one.calls, other.calls],
    sql,
    address: one.address,
    licensing,
    notifier,
    lookForMails() {
      one.lookForMails()
      other.lookForMails()
    },
  }
}

async function startReplica(
  starting: AsyncDisposableStack,
  sql: Database,
  licensingAddress: string,
  notifier: ConfirmationSender,
) {
  const licensing = connectTo(LicensingService, licensingAddress)
  starting.defer(() => licensing.close())
  const rootKeys = connectTo(RootKeyService, licensingAddress)
  starting.defer(() => rootKeys.close())
  const log = createLogger('catalog', process.env.TEST_LOG_LEVEL ?? 'silent')
  const catalog = startCatalog({
    sql,
    nats: noNats(),
    log,
    licensing: licensing.calls,
    rootKeys: rootKeys.calls,
    notifier,
    newAccountFee,
    relay: { streamReplicas: 1 },
  })
  starting.defer(() => catalog.stop())
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: catalog.services,
    log,
    health: new Health(),
    isUnavailable: isDatabaseUnavailable,
  })
  starting.defer(() => server.stop())
  const address = `127.0.0.1:${server.port}`
  const client = connectTo(CatalogService, address, { timeoutMs: 30_000 })
  starting.defer(() => client.close())
  return { address, calls: client.calls, lookForMails: () => catalog.deps.confirmationRequested() }
}

/** The plan changes in the events of an account, in order. */
export async function changesOf(
  catalog: TestCatalog,
  tenant: Tenant,
): Promise<{ planId: string; version: bigint }[]> {
  return (await eventsOf(catalog, tenant)).flatMap(({ payload }) =>
    payload.case === 'planCopyChanged'
      ? payload.value.changed.map(({ planId, version }) => ({ planId, version }))
      : [],
  )
}

/** The entries of the audit log that wait in the outbox, in the order of their commits. */
export async function entriesOf(catalog: TestCatalog, account: Pick<Tenant, 'accountId'>) {
  return (await outboxOf(catalog, account)).flatMap(({ applicationId, payload }) =>
    payload.case === 'auditEntry'
      ? [{ ...payload.value, applicationId, changes: JSON.parse(payload.value.changes) as object }]
      : [],
  )
}

/** The events for licensing that wait in the outbox, in the order of their commits. */
export async function eventsOf(catalog: TestCatalog, tenant: Tenant): Promise<Event[]> {
  return (await outboxOf(catalog, tenant)).filter(({ payload }) => payload.case !== 'auditEntry')
}

async function outboxOf({ sql }: TestCatalog, { accountId }: Pick<Tenant, 'accountId'>): Promise<Event[]> {
  const rows = await sql<{ payload: Buffer }[]>`
    select payload from outbox where account_id = ${accountId} order by position`
  return rows.map(({ payload }) =>
    fromBinary(EventSchema, fromBinary(EventBatchSchema, payload).events[0]!.event),
  )
}

/** The first page of a list, of the usual size. */
export const firstPage = { limit: 0, beforeId: '' }

/** The API key that archives a plan. */
export const actor = 'key_1'

/** An account and its application, which every request names. */
export interface Tenant {
  accountId: string
  applicationId: string
}

export async function givenTenant({ calls, sql }: TestCatalog): Promise<Tenant> {
  const accountId = newId('acct')
  await insertAccount(sql, {
    id: accountId,
    name: 'Test',
    alertEmail: null,
    fee: { bps: 100, fixedMinor: 0n },
    demo: false,
  })
  const { id } = await calls.createApplication({ accountId, name: 'Test' })
  return { accountId, applicationId: id }
}

/** Creates definitions by key: a limit if the value is a number, else a feature. */
export async function givenDefinitions(
  { calls }: TestCatalog,
  tenant: Tenant,
  defaults: Record<string, string>,
): Promise<Record<string, string>> {
  const ids: Record<string, string> = {}
  for (const [key, value] of Object.entries(defaults)) {
    const kind = /^(true|false)$/.test(value) ? 'feature' : 'limit'
    const definition = { ...tenant, key, kind, default: value }
    ids[key] = (await calls.createEntitlementDefinition(definition)).id
  }
  return ids
}

export async function givenPlan(
  { calls }: TestCatalog,
  tenant: Tenant,
  code = 'pro',
  overrides: Record<string, string> = {},
): Promise<Plan> {
  const entitlements = Object.entries(overrides).map(([key, value]) => ({ key, value }))
  return calls.createPlan({ ...tenant, fields: { name: code, code }, entitlements })
}

/** The part of a request that changes these fields of a plan; undefined: the field is removed. */
export function planChange(fields: Exclude<RequestOf<typeof PlanFieldsSchema>, Message>) {
  const paths = PlanFieldsSchema.fields.filter(({ localName }) => localName in fields).map(({ name }) => name)
  return { fields, mask: { paths } }
}

/** Inserts definitions of limits that many calls would create. @returns their ids */
export async function insertDefinitions(
  { sql }: TestCatalog,
  { applicationId }: Tenant,
  keys: string[],
): Promise<string[]> {
  const ids = keys.map(() => newId('ent'))
  await sql`insert into entitlement_keys select ${applicationId}, unnest(${keys}::text[]), 'limit'`
  await sql`
    insert into entitlement_definitions (id, application_id, key, kind, display_name, default_value)
    select unnest(${ids}::text[]), ${applicationId}, unnest(${keys}::text[]), 'limit', 'x', '123456789012345'`
  return ids
}

/** Inserts plans that many calls would create. @returns their ids, the oldest first */
export async function insertPlans(
  { sql }: TestCatalog,
  { applicationId }: Tenant,
  count: number,
  metadata: Record<string, string> = {},
): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newId('pln'))
  await sql`
    insert into plans (id, application_id, name, code, metadata)
    select id, ${applicationId}, 'x', id, ${JSON.stringify(metadata)}::text::jsonb from unnest(${ids}::text[]) as id`
  return ids
}

/** The entitlements of a plan in the copy that was last sent to licensing. */
export function resolved({ licensing }: TestCatalog, planId: string): Record<string, string> {
  const copy = licensing.copies.get(planId)
  return Object.fromEntries(copy?.entitlements.map(({ key, value }) => [key, value]) ?? [])
}

/** The outcome of each call: `ok`, or the code of its error, with the pointers of a validation. */
export async function outcomesOf(attempts: Promise<unknown>[]): Promise<string[]> {
  const outcomes = await Promise.allSettled(attempts)
  return outcomes.map((outcome) => {
    if (outcome.status === 'fulfilled') return 'ok'
    if (!(outcome.reason instanceof ServiceError)) throw outcome.reason
    return [outcome.reason.code, ...outcome.reason.errors.map(({ pointer }) => pointer)].join(' ')
  })
}

export async function outcomeOf(attempt: Promise<unknown>): Promise<string> {
  return (await outcomesOf([attempt]))[0]!
}
