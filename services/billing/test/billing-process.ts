import { connectTo } from '@licensing/grpc/client'
import { BillingService } from '@licensing/proto/billing'
import { freeAddress } from '@licensing/test-support/free-address'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import { startSurroundings, webhookSecret } from './surroundings.ts'
import type { Surroundings } from './surroundings.ts'
import { startWebhookGate } from './webhook-gate.ts'

/** Billing in a process of its own, which a test can kill. */
export interface ProcessHarness extends Surroundings {
  readonly process: TestProcess
}

/**
 * @param serverUrl where billing's database is, if not on the server of the test run
 * @param reconcileSeconds how often billing reads the processor's list of events
 */
export async function startProcessHarness(serverUrl?: string, reconcileSeconds = 1): Promise<ProcessHarness> {
  await using started = new AsyncDisposableStack()
  const around = started.use(await startSurroundings(serverUrl))
  const environment = {
    GRPC_ADDRESS: await freeAddress(),
    METRICS_ADDRESS: await freeAddress(),
    DATABASE_URL: around.databaseUrl,
    NATS_URL: around.nats.urlOf('billing'),
    CATALOG_ADDRESS: around.catalog.address,
    LICENSING_ADDRESS: around.licensingAddress,
    STRIPE_API_BASE: around.simulator.url,
    PROCESSOR_CLAIM: 'direct',
    STRIPE_SECRET_KEY: 'sk_test_simulated',
    STRIPE_WEBHOOK_SECRET: webhookSecret,
    RECONCILE_INTERVAL_SECONDS: String(reconcileSeconds),
  }
  const process = started.use(await startService('billing', environment, around.folder))
  const client = connectTo(BillingService, environment.GRPC_ADDRESS, { timeoutMs: 10_000 })
  started.defer(() => client.close())
  const gate = started.use(await startWebhookGate(client.calls))
  around.simulator.sendWebhooksTo(gate.url)
  const running = started.move()
  return {
    ...around,
    billing: client.calls,
    process,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
