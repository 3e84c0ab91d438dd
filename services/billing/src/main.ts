import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { prepareDatabase } from '@licensing/database/prepare'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import { createOutbox } from '@licensing/events/outbox'
import { startRelay } from '@licensing/events/relay'
import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { readConfig } from '@licensing/process/config'
import { runProcess } from '@licensing/process/run'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { billingConfig, stripeSettings } from './config.ts'
import type { BillingDeps } from './dependencies.ts'
import { startFeeRefunds } from './fees/fee-refunds.ts'
import { startInbox } from './inbox/inbox.ts'
import { startReconciliation } from './inbox/reconcile.ts'
import { billingMigrations } from './migrations.ts'
import { startResumedSales } from './sale-events/resume-sales.ts'
import { billingService } from './service.ts'
import { stripeProcessor } from './stripe/stripe-processor.ts'

await runProcess(
  'billing',
  () => readConfig(billingConfig),
  async ({ log, health, onStop, step, stopping }, config) => {
    const sql = connect(config.DATABASE_URL, { name: 'billing', max: config.DATABASE_CONNECTIONS })
    onStop('database', () => sql.end({ timeout: 5 }))
    await prepareDatabase({ sql, health, log, step, stopping }, () => migrate(sql, billingMigrations, step))

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'billing', log)
    onStop('nats', () => nats.close())
    const relay = startRelay({ sql, nats, source: 'billing', streamReplicas: config.STREAM_REPLICAS, log })
    onStop('relay', () => relay.stop())

    const catalog = connectTo(CatalogService, config.CATALOG_ADDRESS.text)
    onStop('catalog channel', () => catalog.close())
    const licensing = connectTo(LicensingService, config.LICENSING_ADDRESS.text)
    onStop('licensing channel', () => licensing.close())
    const processor = stripeProcessor(stripeSettings(config))
    if (processor.simulated) log.warn('the payment processor is simulated: no money moves')

    const deps: BillingDeps = {
      sql,
      outbox: createOutbox(sql, () => relay.wake()),
      processor,
      catalog: catalog.calls,
      licensing: licensing.calls,
      failuresBeforeSuspend: config.PAYMENT_FAILURES_BEFORE_SUSPEND,
      log,
      wakeInbox: () => inbox.wake(),
    }
    const inbox = startInbox(deps)
    onStop('inbox', () => inbox.stop())
    const feeRefunds = startFeeRefunds(deps)
    onStop('fee refunds', () => feeRefunds.stop())
    const resumedSales = startResumedSales(deps)
    onStop('resumed sales', () => resumedSales.stop())
    const reconciliation = startReconciliation(deps, config.RECONCILE_INTERVAL_SECONDS * 1000)
    onStop('reconciliation', () => reconciliation.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: [billingService(deps)],
      log,
      health,
      isUnavailable: isDatabaseUnavailable,
    })
    onStop('server', () => server.stop())
  },
)
