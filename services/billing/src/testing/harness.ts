import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { createOutbox } from '@licensing/events/outbox'
import { startRelay } from '@licensing/events/relay'
import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { BillingService } from '@licensing/proto/billing'
import { CatalogService } from '@licensing/proto/catalog'
import type { Simulator } from '@licensing/stripe-simulator/simulator'
import type { BillingDeps } from '../dependencies.ts'
import { startFeeRefunds } from '../fees/fee-refunds.ts'
import { startInbox } from '../inbox/inbox.ts'
import { billingMigrations } from '../migrations.ts'
import { startResumedSales } from '../sale-events/resume-sales.ts'
import { billingService } from '../service.ts'
import { stripeProcessor } from '../stripe/stripe-processor.ts'
import { startSurroundings, webhookSecret } from './surroundings.ts'
import type { Surroundings } from './surroundings.ts'
import { changeStatus, givenVendor } from './vendor.ts'
import type { Vendor, VendorOptions } from './vendor.ts'
import { startWebhookGate } from './webhook-gate.ts'
import type { WebhookGate } from './webhook-gate.ts'

/** Billing in this process, beside a real licensing service, a stand-in for catalog and the simulated Stripe. */
export interface Harness extends Surroundings {
  /** Where the simulator's events arrive. */
  readonly gate: WebhookGate
  readonly deps: BillingDeps
  givenVendor(options?: VendorOptions): Promise<Vendor>
  changePlan(planId: string, status: 'active' | 'retired'): Promise<void>
}

export async function startHarness(
  options: { apiBase?: (simulator: Simulator) => string } = {},
): Promise<Harness> {
  await using started = new AsyncDisposableStack()
  const around = started.use(await startSurroundings())
  const { sql, simulator, catalog, licensing, licensingAddress, natsConnection } = around
  await migrate(sql, billingMigrations)
  const log = createLogger('billing', process.env['TEST_LOG_LEVEL'] ?? 'silent')
  const relay = startRelay({ sql, nats: natsConnection, source: 'billing', streamReplicas: 1, log })
  started.defer(() => relay.stop())
  const toCatalog = connectTo(CatalogService, catalog.address)
  started.defer(() => toCatalog.close())
  const deps: BillingDeps = {
    sql,
    outbox: createOutbox(sql, () => relay.wake()),
    processor: stripeProcessor({
      apiBase: options.apiBase?.(simulator) ?? simulator.url,
      secretKey: 'sk_test_simulated',
      webhookSecrets: [webhookSecret],
    }),
    catalog: toCatalog.calls,
    licensing,
    failuresBeforeSuspend: 3,
    log,
    wakeInbox: () => inbox.wake(),
  }
  const inbox = startInbox(deps)
  started.defer(() => inbox.stop())
  const feeRefunds = startFeeRefunds(deps)
  started.defer(() => feeRefunds.stop())
  const resumedSales = startResumedSales(deps)
  started.defer(() => resumedSales.stop())
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
  const house = { billing: client.calls, catalog, licensingAddress }
  return {
    ...around,
    ...house,
    gate,
    deps,
    givenVendor: (vendor) => givenVendor(house, vendor),
    changePlan: (planId, status) => changeStatus(house, planId, status),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
