import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import type { Nats } from '@licensing/events/connection'
import { createOutbox } from '@licensing/events/outbox'
import { startRelay } from '@licensing/events/relay'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { BillingService } from '@licensing/proto/billing'
import type { Price } from '@licensing/proto/billing'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { startSimulator } from '@licensing/stripe-simulator/simulator'
import type { Simulator } from '@licensing/stripe-simulator/simulator'
import { createTestDatabase } from '@licensing/test-support/database'
import { startOwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { BillingDeps } from '../deps.ts'
import { startFeeRefunds } from '../fees/fee-refunds.ts'
import { startInbox } from '../inbox/inbox.ts'
import { billingMigrations } from '../migrations.ts'
import { billingService } from '../service.ts'
import { stripeProcessor } from '../stripe/stripe-processor.ts'
import { changePlan, newPlan, startCatalogStandIn } from './catalog-stand-in.ts'
import type { CatalogStandIn, Fee } from './catalog-stand-in.ts'
import { startEventLog } from './event-log.ts'
import type { EventLog } from './event-log.ts'
import { freeAddress } from './free-address.ts'
import { startWebhookGate } from './webhook-gate.ts'
import type { WebhookGate } from './webhook-gate.ts'

/** Billing in this process, beside a real licensing service, a stand-in for catalog and the simulated Stripe. */
export interface Harness extends AsyncDisposable {
  readonly billing: ServiceClient<typeof BillingService>
  readonly licensing: ServiceClient<typeof LicensingService>
  readonly licensingProcess: TestProcess
  readonly catalog: CatalogStandIn
  readonly simulator: Simulator
  /** Where the simulator's events arrive. */
  readonly gate: WebhookGate
  readonly events: EventLog
  readonly nats: NatsServer
  readonly sql: Database
  readonly databaseUrl: string
  readonly deps: BillingDeps
  /** An account with an application, a connected processor and a plan at this price. */
  givenVendor(options?: VendorOptions): Promise<Vendor>
  changePlan(planId: string, status: 'active' | 'retired'): Promise<void>
}

export interface VendorOptions {
  fee?: Partial<Fee>
  /** Null: the plan has none. */
  price?: Partial<Pick<Price, 'amount' | 'currency' | 'mode' | 'periodMonths'>> | null
  connect?: boolean
}

export interface Vendor {
  accountId: string
  applicationId: string
  planId: string
  priceId: string
  connectedAccount: string
}

type NatsServer = Awaited<ReturnType<typeof startOwnNats>>

export const webhookSecret = 'whsec_of_the_test'

export async function startHarness(
  options: { apiBase?: (simulator: Simulator) => string } = {},
): Promise<Harness> {
  await using started = new AsyncDisposableStack()
  const nats = started.use(await startOwnNats())
  const database = started.use(await createTestDatabase())
  const catalog = started.use(await startCatalogStandIn())
  const licensingProcess = started.use(await startLicensing(started, nats, catalog))
  const licensingAddress = licensingProcess.environment['GRPC_ADDRESS']!
  const log = createLogger('billing', process.env['TEST_LOG_LEVEL'] ?? 'silent')

  const sql = connect(database.url, { name: 'billing-test', max: 20 })
  started.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, billingMigrations)
  const connection = await connectNats(nats.url, 'billing-test', log)
  started.defer(() => connection.close())
  const events = await startCollecting(connection)
  const relay = startRelay({ sql, nats: connection, source: 'billing', streamReplicas: 1, log })
  started.defer(() => relay.stop())

  const simulator = started.use(await startSimulator({ webhookSecret, retryDelaysMs: [50, 100, 200, 400] }))
  const toCatalog = connectTo(CatalogService, catalog.address)
  started.defer(() => toCatalog.close())
  const toLicensing = connectTo(LicensingService, licensingAddress)
  started.defer(() => toLicensing.close())
  const deps: BillingDeps = {
    sql,
    outbox: createOutbox(sql, () => relay.wake()),
    processor: stripeProcessor({
      apiBase: options.apiBase?.(simulator) ?? simulator.url,
      secretKey: 'sk_test_simulated',
      webhookSecrets: [webhookSecret],
    }),
    catalog: toCatalog.calls,
    licensing: toLicensing.calls,
    failuresBeforeSuspend: 3,
    log,
    wakeInbox: () => inbox.wake(),
  }
  const inbox = startInbox(deps)
  started.defer(() => inbox.stop())
  const feeRefunds = startFeeRefunds(deps)
  started.defer(() => feeRefunds.stop())
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [billingService(deps)],
    log,
    health: new Health(),
    isUnavailable: isDatabaseUnavailable,
  })
  started.defer(() => server.stop())
  const client = connectTo(BillingService, `127.0.0.1:${server.port}`, { timeoutMs: 30_000 })
  started.defer(() => client.close())
  const gate = started.use(await startWebhookGate(client.calls))
  simulator.sendWebhooksTo(gate.url)

  const running = started.move()
  return {
    billing: client.calls,
    licensing: toLicensing.calls,
    licensingProcess,
    catalog,
    simulator,
    gate,
    events,
    nats,
    sql,
    databaseUrl: database.url,
    deps,
    givenVendor: (vendor = {}) => givenVendor({ billing: client.calls, catalog, licensingAddress }, vendor),
    changePlan: (planId, status) => {
      const plan = catalog.plans.get(planId)!
      const version = plan.version + 1n
      const archiveVersion = status === 'retired' ? version : plan.archiveVersion
      return changePlan(catalog, licensingAddress, { ...plan, status, version, archiveVersion })
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function startCollecting(connection: Nats): Promise<EventLog> {
  await connection.whenConnected(AbortSignal.timeout(10_000))
  return startEventLog(connection)
}

async function startLicensing(
  started: AsyncDisposableStack,
  nats: NatsServer,
  catalog: CatalogStandIn,
): Promise<TestProcess> {
  const database = started.use(await createTestDatabase())
  const folder = await mkdtemp(join(tmpdir(), 'billing-'))
  started.defer(() => rm(folder, { recursive: true, force: true }))
  const environment = {
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: database.url,
    NATS_URL: nats.url,
    CATALOG_ADDRESS: catalog.address,
    ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
  }
  return startService('licensing', environment, folder)
}

async function givenVendor(
  house: { billing: Harness['billing']; catalog: CatalogStandIn; licensingAddress: string },
  { fee, price = {}, connect: connectIt = true }: VendorOptions,
): Promise<Vendor> {
  const { billing, catalog, licensingAddress } = house
  const vendor = {
    accountId: newId('acct'),
    applicationId: newId('app'),
    connectedAccount: `acct_${newId('acct').slice(-26)}`,
    priceId: `price_${newId('pln').slice(-26)}`,
  }
  catalog.accounts.set(vendor.accountId, {
    feeBps: 500,
    feeFixedMinor: 0n,
    ...fee,
    applicationIds: [vendor.applicationId],
  })
  const plan = newPlan(vendor)
  await changePlan(catalog, licensingAddress, plan)
  if (connectIt) {
    await billing.connectProcessor({ ...vendor, processor: 'stripe' })
  }
  if (price) {
    const { accountId, applicationId, priceId } = vendor
    await billing.setPrice({
      accountId,
      applicationId,
      price: { planId: plan.id, priceId, amount: 4900n, currency: 'usd', mode: 'payment', ...price },
    })
  }
  return { ...vendor, planId: plan.id }
}
