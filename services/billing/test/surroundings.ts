import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { connectNats } from '@licensing/events/connection'
import type { Nats } from '@licensing/events/connection'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { createLogger } from '@licensing/process/log'
import type { BillingService } from '@licensing/proto/billing'
import { LicensingService } from '@licensing/proto/licensing'
import { startSimulator } from '@licensing/stripe-simulator/simulator'
import type { Simulator } from '@licensing/stripe-simulator/simulator'
import { createTestDatabase } from '@licensing/test-support/database'
import { freeAddress } from '@licensing/test-support/free-address'
import { startOwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import type { TestProcess } from '@licensing/test-support/test-process'
import { randomBytes } from 'node:crypto'
import { startCatalogStandIn } from './catalog-stand-in.ts'
import type { CatalogStandIn } from './catalog-stand-in.ts'
import { startEventLog } from './event-log.ts'
import type { EventLog } from './event-log.ts'

type NatsServer = Awaited<ReturnType<typeof startOwnNats>>

export const webhookSecret = 'whsec_of_the_test'

/** Everything that billing needs, and what a test reads from it. The caller starts billing itself. */
export interface Surroundings extends AsyncDisposable {
  readonly billing: ServiceClient<typeof BillingService>
  readonly licensing: ServiceClient<typeof LicensingService>
  readonly licensingProcess: TestProcess
  readonly licensingAddress: string
  readonly catalog: CatalogStandIn
  readonly simulator: Simulator
  readonly events: EventLog
  readonly nats: NatsServer
  readonly natsConnection: Nats
  readonly sql: Database
  readonly licensingSql: Database
  readonly databaseUrl: string
  /** The folder for logs. */
  readonly folder: string
}

/** @param serverUrl where billing's database is, if not on the server of the test run */
export async function startSurroundings(serverUrl?: string): Promise<Omit<Surroundings, 'billing'>> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder()).path
  const nats = started.use(await startOwnNats())
  const database = started.use(await createTestDatabase(serverUrl))
  const catalog = started.use(await startCatalogStandIn())
  const licensingDatabase = started.use(await createTestDatabase())
  const licensingSql = connect(licensingDatabase.url, { name: 'billing-test', max: 4 })
  started.defer(() => licensingSql.end({ timeout: 5 }))
  const licensingProcess = started.use(await startLicensing(folder, licensingDatabase.url, nats, catalog))
  const licensingAddress = licensingProcess.environment['GRPC_ADDRESS']!
  const sql = connect(database.url, { name: 'billing-test', max: 20 })
  started.defer(() => sql.end({ timeout: 5 }))
  const log = createLogger('billing', process.env['TEST_LOG_LEVEL'] ?? 'silent')
  const natsConnection = await connectNats(nats.urlOf('billing'), 'billing-test', log)
  started.defer(() => natsConnection.close())
  const events = startEventLog([sql, licensingSql])
  started.defer(() => events.stop())
  const simulator = started.use(
    await startSimulator({ webhookSecret, retryDelaysMs: [50, 100, 200, 400, 800, 1600, 3200] }),
  )
  const licensing = connectTo(LicensingService, licensingAddress)
  started.defer(() => licensing.close())
  const running = started.move()
  return {
    licensing: licensing.calls,
    licensingProcess,
    licensingAddress,
    catalog,
    simulator,
    events,
    nats,
    natsConnection,
    sql,
    licensingSql,
    databaseUrl: database.url,
    folder,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function startLicensing(
  folder: string,
  databaseUrl: string,
  nats: NatsServer,
  catalog: CatalogStandIn,
): Promise<TestProcess> {
  const environment = {
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: databaseUrl,
    NATS_URL: nats.urlOf('licensing'),
    CATALOG_ADDRESS: catalog.address,
    ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
  }
  return startService('licensing', environment, folder)
}
