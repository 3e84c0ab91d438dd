import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { BillingService } from '@licensing/proto/billing'
import { BillingOperationsService } from '@licensing/proto/billing-operations'
import { CatalogService } from '@licensing/proto/catalog'
import { PurchaseService } from '@licensing/proto/purchases'
import { platformApplication } from '@licensing/stripe-simulator/ids'
import { startBilling } from '../src/billing.ts'
import type { BillingDependencies } from '../src/dependencies.ts'
import { billingMigrations } from '../src/tables.ts'
import { stripeProcessor } from '../src/processor/stripe/stripe-processor.ts'
import type { ProcessorProxy } from './processor-proxy.ts'
import { startSurroundings, webhookSecret } from './surroundings.ts'
import type { Surroundings } from './surroundings.ts'
import { changeStatus, givenVendor } from './vendor.ts'
import type { Vendor, VendorOptions } from './vendor.ts'
import { startWebhookGate } from './webhook-gate.ts'

export const subscriptionGraceMs = 336 * 3_600_000

/** Billing in this process, beside a real licensing service, a stand-in for catalog and the simulated Stripe. */
export interface Harness extends Surroundings {
  readonly operations: ServiceClient<typeof BillingOperationsService>
  readonly deps: BillingDependencies
  givenVendor(options?: VendorOptions): Promise<Vendor>
  changePlan(planId: string, status: 'active' | 'retired'): Promise<void>
}

// Vitest loads this module once for all test files of a worker.
let shared: Promise<Harness> | undefined

/**
 * A harness that the test files of a worker share. Each test makes its own vendors. A test that changes how the simulator
 * delivers or answers does so for its vendor's account, or undoes it.
 */
export function sharedHarness(): Promise<Harness> {
  return (shared ??= startHarness())
}

/** @param proxy is put between billing and the simulated Stripe */
export async function startHarness(proxy?: ProcessorProxy): Promise<Harness> {
  await using started = new AsyncDisposableStack()
  const around = started.use(await startSurroundings())
  const { sql, simulator, catalog, licensingAddress, natsConnection } = around
  if (proxy) proxy.target = simulator.url
  await migrate(sql, billingMigrations)
  const log = createLogger('billing', process.env['TEST_LOG_LEVEL'] ?? 'silent')
  const toCatalog = connectTo(CatalogService, catalog.address)
  started.defer(() => toCatalog.close())
  const toLicensing = connectTo(PurchaseService, licensingAddress)
  started.defer(() => toLicensing.close())
  const running = startBilling({
    sql,
    nats: natsConnection,
    log,
    catalog: toCatalog.calls,
    purchases: toLicensing.calls,
    licences: around.licensing,
    processor: stripeProcessor({
      apiBase: proxy?.url ?? simulator.url,
      secretKey: 'sk_test_simulated',
      clientId: platformApplication,
      connectBase: simulator.url,
      webhookSecrets: [webhookSecret],
    }),
    processorClaim: 'direct',
    failuresBeforeSuspend: 3,
    subscriptionGraceMs,
    relay: { streamReplicas: 1 },
  })
  started.defer(() => running.stop())
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: running.services,
    log,
    health: new Health(),
    isUnavailable: isDatabaseUnavailable,
  })
  started.defer(() => server.stop())
  const client = connectTo(BillingService, `127.0.0.1:${server.port}`, { timeoutMs: 30_000 })
  started.defer(() => client.close())
  const operations = connectTo(BillingOperationsService, `127.0.0.1:${server.port}`)
  started.defer(() => operations.close())
  const gate = started.use(await startWebhookGate(client.calls))
  simulator.sendWebhooksTo(gate.url)

  const stack = started.move()
  const harness = { billing: client.calls, catalog, licensingAddress }
  return {
    ...around,
    ...harness,
    operations: operations.calls,
    deps: running.deps,
    givenVendor: (vendor) => givenVendor(harness, vendor),
    changePlan: (planId, status) => changeStatus(harness, planId, status),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
