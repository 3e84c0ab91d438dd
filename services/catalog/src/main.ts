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
import { LicensingService } from '@licensing/proto/licensing'
import { NotifierService } from '@licensing/proto/notifier'
import { RootKeyService } from '@licensing/proto/root-keys'
import { bootstrap } from './bootstrap.ts'
import { startCatalog } from './catalog.ts'
import { catalogConfig } from './config.ts'
import { catalogMigrations } from './tables.ts'

export const program = defineProgram(
  'catalog',
  (env) => readConfig(catalogConfig, env),
  async ({ log, health, onStop, step, stopping }, config) => {
    const newAccountFee = { bps: config.FEE_BPS, fixedMinor: BigInt(config.FEE_FIXED_MINOR) }
    const sql = connect(config.DATABASE_URL, { name: 'catalog', max: config.DATABASE_CONNECTIONS })
    onStop('database', () => sql.end({ timeout: 5 }))
    await prepareDatabase({ sql, health, log, step, stopping }, async () => {
      await migrate(sql, catalogMigrations, step)
      step('bootstrap')
      await bootstrap(sql, config, newAccountFee)
    })

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'catalog', log, config.NATS_PASSWORD)
    onStop('nats', () => nats.close())
    const licensing = connectTo(LicensingService, config.LICENSING_ADDRESS, {
      sign: signCalls('catalog', 'licensing', config),
    })
    onStop('licensing channel', () => licensing.close())
    const rootKeys = connectTo(RootKeyService, config.LICENSING_ADDRESS, {
      sign: signCalls('catalog', 'licensing', config),
    })
    onStop('root keys channel', () => rootKeys.close())
    const notifier = connectTo(NotifierService, config.NOTIFIER_ADDRESS, {
      sign: signCalls('catalog', 'notifier', config),
    })
    onStop('notifier channel', () => notifier.close())

    step('catalog')
    const catalog = startCatalog({
      sql,
      nats,
      log,
      licensing: licensing.calls,
      rootKeys: rootKeys.calls,
      notifier: notifier.calls,
      newAccountFee,
      relay: relaySettings(config),
    })
    onStop('catalog', () => catalog.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: catalog.services,
      log,
      health,
      checkCaller: checkCallers('catalog', config, log),
      isUnavailable: isDatabaseUnavailable,
      checkMoved: catalog.checkMoved,
    })
    onStop('server', () => server.stop())
  },
)

if (import.meta.main) program.run()
