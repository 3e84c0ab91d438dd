import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { prepareDatabase } from '@licensing/database/prepare'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import { relaySettings } from '@licensing/events/relay'
import { checkCallers, signCalls } from '@licensing/grpc/callers'
import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { readConfig } from '@licensing/process/config'
import { defineProgram } from '@licensing/process/run'
import { CatalogService } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'
import { PurchaseService } from '@licensing/proto/purchases'
import { startBilling } from './billing.ts'
import { billingConfig, stripeSettings } from './config.ts'
import { billingMigrations } from './tables.ts'
import { stripeProcessor } from './processor/stripe/stripe-processor.ts'

export const program = defineProgram(
  'billing',
  (env) => readConfig(billingConfig, env),
  async ({ log, health, onStop, step, stopping }, config) => {
    const sql = connect(config.DATABASE_URL, { name: 'billing', max: config.DATABASE_CONNECTIONS })
    onStop('database', () => sql.end({ timeout: 5 }))
    await prepareDatabase({ sql, health, log, step, stopping }, () => migrate(sql, billingMigrations, step))

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'billing', log, config.NATS_PASSWORD)
    onStop('nats', () => nats.close())
    const catalog = connectTo(CatalogService, config.CATALOG_ADDRESS, {
      sign: signCalls('billing', 'catalog', config),
    })
    onStop('catalog channel', () => catalog.close())
    const toLicensing = { sign: signCalls('billing', 'licensing', config) }
    const purchases = connectTo(PurchaseService, config.LICENSING_ADDRESS, toLicensing)
    onStop('channel for purchases', () => purchases.close())
    const licences = connectTo(LicensingService, config.LICENSING_ADDRESS, toLicensing)
    onStop('channel for licences', () => licences.close())
    const processor = stripeProcessor(stripeSettings(config))
    if (!config.STRIPE_SECRET_KEY) log.warn('STRIPE_SECRET_KEY is not set: nothing can be sold')
    else if (!processor.live) log.warn('the payment processor is in test mode: no money moves')

    step('billing')
    const billing = startBilling({
      sql,
      nats,
      log,
      catalog: catalog.calls,
      purchases: purchases.calls,
      licences: licences.calls,
      processor,
      processorClaim: config.PROCESSOR_CLAIM,
      failuresBeforeSuspend: config.PAYMENT_FAILURES_BEFORE_SUSPEND,
      subscriptionGraceMs: config.SUBSCRIPTION_GRACE_HOURS * 3_600_000,
      reconcileIntervalMs: config.RECONCILE_INTERVAL_SECONDS * 1000,
      relay: relaySettings(config),
    })
    onStop('billing', () => billing.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: billing.services,
      log,
      health,
      checkCaller: checkCallers('billing', config, log),
      isUnavailable: isDatabaseUnavailable,
      checkMoved: billing.checkMoved,
    })
    onStop('server', () => server.stop())
  },
)

if (import.meta.main) program.run()
