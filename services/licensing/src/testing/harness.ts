import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { createOutbox } from '@licensing/events/outbox'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService, PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { createTestDatabase } from '@licensing/test-support/database'
import type { LicensingDeps } from '../dependencies.ts'
import { createSnapshots } from '../plans/snapshots.ts'
import { connectPools } from '../pools.ts'
import { licensingService } from '../service.ts'

/** The service, reached through its real client. */
interface Service extends AsyncDisposable {
  sql: Database
  deps: LicensingDeps
  licensing: ServiceClient<typeof LicensingService>
}

/** The service on a database of its own, beside a catalog that holds `copies`. */
export interface Harness extends Service {
  catalog: CatalogStandIn
  accountId: string
  applicationId: string
  /** Another replica of the service, on the same database. */
  replica: () => Promise<Service>
}

/** What catalog answers to licensing; `away` makes it refuse with unavailable. */
export interface CatalogStandIn {
  copies: Map<string, PlanCopy>
  away: boolean
}

export async function startHarness(): Promise<Harness> {
  await using started = new AsyncDisposableStack()
  const database = started.use(await createTestDatabase())
  const owner = connect(database.url, { name: 'migrations', max: 1 })
  await migrate(owner, [outboxMigrations, consumerMigrations, licensingMigrations])
  await owner.end()

  const catalog = started.use(await startCatalogStandIn())
  const service = started.use(await startService(database.url, catalog.port))
  const running = started.move()
  return {
    ...service,
    catalog: catalog.state,
    accountId: newId('acct'),
    applicationId: newId('app'),
    replica: () => startService(database.url, catalog.port),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function startService(databaseUrl: string, catalogPort: number): Promise<Service> {
  await using started = new AsyncDisposableStack()
  const { sql, lists } = connectPools({ DATABASE_URL: databaseUrl, DATABASE_CONNECTIONS: 20 })
  started.defer(async () => void (await Promise.all([sql.end({ timeout: 5 }), lists.end({ timeout: 5 })])))
  const toCatalog = connectTo(CatalogService, `127.0.0.1:${catalogPort}`)
  started.defer(() => toCatalog.close())
  const { log, ...listen } = serveOn()
  const snapshots = createSnapshots(sql)
  const deps = { sql, lists, snapshots, outbox: createOutbox(sql, () => {}), catalog: toCatalog.calls, log }
  const services = [licensingService(deps)]
  const server = await serve({ ...listen, log, services, isUnavailable: isDatabaseUnavailable })
  started.defer(() => server.stop())
  const client = connectTo(LicensingService, `127.0.0.1:${server.port}`, { timeoutMs: 30_000 })
  started.defer(() => client.close())
  const running = started.move()
  return { sql, deps, licensing: client.calls, [Symbol.asyncDispose]: () => running.disposeAsync() }
}

function serveOn() {
  const address = { host: '127.0.0.1', port: 0 }
  return { address, log: createLogger('licensing', 'error'), health: new Health() }
}

export const licensingMigrations = {
  name: 'licensing',
  path: new URL('../../migrations', import.meta.url).pathname,
}

/** Serves what licensing asks of catalog. */
export async function startCatalogStandIn() {
  const state: CatalogStandIn = { copies: new Map(), away: false }
  const server = await serve({ ...serveOn(), services: [catalogStandIn(state)] })
  return { state, port: server.port, [Symbol.asyncDispose]: () => server.stop() }
}

function catalogStandIn(catalog: CatalogStandIn) {
  const handlers: Partial<Handlers<typeof CatalogService>> = {
    getPlanCopy: async ({ planId }) => {
      if (catalog.away) throw new ServiceError('unavailable', 'catalog is unavailable')
      const copy = catalog.copies.get(planId)
      if (!copy) throw new ServiceError('not_found', `there is no plan ${planId}`)
      return copy
    },
    listPlanCopies: async ({ afterId, limit }) => {
      if (catalog.away) throw new ServiceError('unavailable', 'catalog is unavailable')
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
    ...given,
  })
}
