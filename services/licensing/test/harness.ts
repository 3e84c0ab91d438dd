import { create } from '@bufbuild/protobuf'
import type { DescService, MessageInitShape } from '@bufbuild/protobuf'
import type { Database } from '@licensing/database/connect'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { noNats } from '@licensing/events/testing/no-nats'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService, PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { CustomerService } from '@licensing/proto/customers'
import { LicensingService } from '@licensing/proto/licensing'
import { MoveService } from '@licensing/proto/moves'
import { ProductService } from '@licensing/proto/products'
import { RootKeyService } from '@licensing/proto/root-keys'
import { PurchaseService } from '@licensing/proto/purchases'
import { createTestDatabase } from '@licensing/test-support/database'
import { eventually } from '@licensing/test-support/poll'
import { randomBytes } from 'node:crypto'
import { afterAll, expect } from 'vitest'
import { startLicensing } from '../src/licensing.ts'
import type { Licensing } from '../src/licensing.ts'
import { licensingMigrations } from '../src/tables.ts'
import { connectPools } from '../src/pools.ts'
import type { TokenSettings } from '../src/activations/token.ts'

/** The settings of an operator, and the clock. */
export interface Settings {
  encryptionKey: string
  tokens: TokenSettings
  now: () => Date
}

/** The service, reached through its real client. */
interface Service extends AsyncDisposable, Pick<Licensing, 'deps' | 'productDeps'> {
  sql: Database
  licensing: ServiceClient<typeof LicensingService>
  products: ServiceClient<typeof ProductService>
  customers: ServiceClient<typeof CustomerService>
  rootKeys: ServiceClient<typeof RootKeyService>
  purchases: ServiceClient<typeof PurchaseService>
  moves: ServiceClient<typeof MoveService>
}

/** The service on a database of its own, beside a catalog that holds `copies`. Its events stay in the outbox. */
export interface Harness extends Service {
  settings: Settings
  catalog: CatalogStandIn
  accountId: string
  applicationId: string
  /** The clock for the ends of tokens. It can be moved forward. */
  clock: { aheadMs: number }
  /** Another replica of the service, on the same database. It stops with the harness. */
  replica: (changes?: Partial<Settings>) => Promise<Service>
}

/** The answers of catalog; with `unavailable` it refuses every call, with `broken` the calls for these plans. */
export interface CatalogStandIn {
  copies: Map<string, PlanCopy>
  unavailable: boolean
  broken: Set<string>
  epoch: bigint
  /** The plans that were asked for, in order. */
  asked: string[]
}

export async function startHarness(): Promise<Harness> {
  await using started = new AsyncDisposableStack()
  const clock = { aheadMs: 0 }
  const settings: Settings = {
    encryptionKey: randomBytes(32).toString('base64url'),
    tokens: { issuer: 'https://licensing.example', lifeSeconds: 86_400, checkIntervalSeconds: 900 },
    now: () => new Date(Date.now() + clock.aheadMs),
  }
  const database = started.use(await createTestDatabase())
  const catalog = started.use(await startCatalogStandIn())
  const start = (changes: Partial<Settings> = {}) =>
    startReplica(database.url, catalog.port, { ...settings, ...changes })
  const service = started.use(await start())
  const running = started.move()
  return {
    ...service,
    settings,
    catalog: catalog.state,
    accountId: newId('acct'),
    applicationId: newId('app'),
    clock,
    replica: async (changes) => running.use(await start(changes)),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** Starts what all tests of a file use, and stops it after them. */
export async function forFile<T extends AsyncDisposable>(start: () => Promise<T>): Promise<T> {
  const started = await start()
  afterAll(() => started[Symbol.asyncDispose]())
  return started
}

/** The same service for a new vendor. */
export const newVendor = (harness: Harness): Harness => ({
  ...harness,
  accountId: newId('acct'),
  applicationId: newId('app'),
})

const dayMs = 86_400_000

async function startReplica(databaseUrl: string, catalogPort: number, settings: Settings): Promise<Service> {
  await using started = new AsyncDisposableStack()
  const { sql, lists } = connectPools({ DATABASE_URL: databaseUrl, DATABASE_CONNECTIONS: 20 })
  started.defer(async () => void (await Promise.all([sql.end({ timeout: 5 }), lists.end({ timeout: 5 })])))
  await migrate(sql, licensingMigrations)
  const catalog = connectTo(CatalogService, `127.0.0.1:${catalogPort}`)
  started.defer(() => catalog.close())
  const listen = serveOn()
  const { log, health } = listen
  const running = startLicensing({
    sql,
    lists,
    nats: noNats(),
    log,
    health,
    catalog: catalog.calls,
    encryptionKeys: parseEncryptionKeys(settings.encryptionKey),
    tokens: settings.tokens,
    // Background work runs once at the start, then leaves the tables to the test.
    sweepIntervalMs: dayMs,
    upkeepIntervalMs: dayMs,
    relay: { streamReplicas: 1 },
    now: settings.now,
  })
  started.defer(() => running.stop())
  await eventually(async () => {
    expect(await health.check()).toMatchObject({ ready: true })
  })
  const server = await serve({ ...listen, services: running.services, isUnavailable: isDatabaseUnavailable })
  started.defer(() => server.stop())
  const address = `127.0.0.1:${server.port}`
  const client = <Service extends DescService>(service: Service) => {
    const { calls, close } = connectTo(service, address, { timeoutMs: 30_000 })
    started.defer(close)
    return calls
  }
  const clients = {
    licensing: client(LicensingService),
    products: client(ProductService),
    customers: client(CustomerService),
    rootKeys: client(RootKeyService),
    purchases: client(PurchaseService),
    moves: client(MoveService),
  }
  const stack = started.move()
  return {
    sql,
    deps: running.deps,
    productDeps: running.productDeps,
    ...clients,
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}

function serveOn() {
  const address = { host: '127.0.0.1', port: 0 }
  return { address, log: createLogger('licensing', 'error'), health: new Health() }
}

/** Serves the calls that licensing makes to catalog. */
export async function startCatalogStandIn() {
  const state: CatalogStandIn = {
    copies: new Map(),
    unavailable: false,
    broken: new Set(),
    epoch: 0n,
    asked: [],
  }
  const server = await serve({ ...serveOn(), services: [catalogStandIn(state)] })
  return { state, port: server.port, [Symbol.asyncDispose]: () => server.stop() }
}

function catalogStandIn(catalog: CatalogStandIn) {
  const handlers: Partial<Handlers<typeof CatalogService>> = {
    getPlanCopy: async ({ planId }) => {
      catalog.asked.push(planId)
      if (catalog.unavailable) throw new ServiceError('unavailable', 'catalog is unavailable')
      // The client does not repeat this call.
      if (catalog.broken.has(planId)) throw new ServiceError('internal', 'broken by the test')
      const copy = catalog.copies.get(planId)
      if (!copy) throw new ServiceError('not_found', `there is no plan ${planId}`)
      return copy
    },
    getCopyEpoch: async () => {
      if (catalog.unavailable) throw new ServiceError('unavailable', 'catalog is unavailable')
      return { epoch: catalog.epoch }
    },
    listPlanCopies: async ({ afterId, limit }) => {
      if (catalog.unavailable) throw new ServiceError('unavailable', 'catalog is unavailable')
      const later = [...catalog.copies.values()]
        .filter((copy) => copy.id > afterId)
        .sort((a, b) => (a.id < b.id ? -1 : 1))
      return { plans: later.slice(0, limit), hasMore: later.length > limit }
    },
  }
  return implement(CatalogService, handlers as Handlers<typeof CatalogService>)
}

/** A plan copy as catalog sends it. */
export function planCopy(
  { accountId, applicationId }: Pick<Harness, 'accountId' | 'applicationId'>,
  given: MessageInitShape<typeof PlanCopySchema> = {},
): PlanCopy {
  return create(PlanCopySchema, {
    id: newId('pln'),
    accountId,
    applicationId,
    status: 'active',
    version: 1n,
    code: 'plan',
    expiringNoticeDays: 14,
    ...given,
  })
}
