import { parseEncryptionKeys } from '@licensing/database/encryption'
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
import { licensingConfig } from './config.ts'
import { startLicensing } from './licensing.ts'
import { licensingMigrations } from './tables.ts'
import { connectPools } from './pools.ts'

export const program = defineProgram(
  'licensing',
  (env) => readConfig(licensingConfig, env),
  async ({ log, health, onStop, step, stopping }, config) => {
    const { sql, lists } = connectPools(config)
    onStop(
      'database',
      async () => void (await Promise.all([sql.end({ timeout: 5 }), lists.end({ timeout: 5 })])),
    )
    await prepareDatabase({ sql, otherPools: [lists], health, log, step, stopping }, () =>
      migrate(sql, licensingMigrations, step),
    )

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'licensing', log, config.NATS_PASSWORD)
    onStop('nats', () => nats.close())
    const catalog = connectTo(CatalogService, config.CATALOG_ADDRESS, {
      sign: signCalls('licensing', 'catalog', config),
    })
    onStop('catalog channel', () => catalog.close())

    step('licensing')
    const licensing = startLicensing({
      sql,
      lists,
      nats,
      log,
      health,
      catalog: catalog.calls,
      encryptionKeys: parseEncryptionKeys(config.ENCRYPTION_KEY),
      tokens: {
        issuer: config.TOKEN_ISSUER,
        lifeSeconds: config.TOKEN_LIFE_SECONDS,
        checkIntervalSeconds: config.CHECK_INTERVAL_SECONDS,
      },
      sweepIntervalMs: config.SWEEP_INTERVAL_SECONDS * 1000,
      relay: relaySettings(config),
    })
    onStop('licensing', () => licensing.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: licensing.services,
      log,
      health,
      checkCaller: checkCallers('licensing', config, log),
      isUnavailable: isDatabaseUnavailable,
      checkMoved: licensing.checkMoved,
    })
    onStop('server', () => server.stop())
  },
)

if (import.meta.main) program.run()
