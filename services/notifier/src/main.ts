import { readFile } from 'node:fs/promises'
import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { prepareDatabase } from '@licensing/database/prepare'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import { relaySettings } from '@licensing/events/relay'
import { checkCallers, signCalls } from '@licensing/grpc/callers'
import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { currentTime } from '@licensing/process/clock'
import { readConfig } from '@licensing/process/config'
import { defineProgram } from '@licensing/process/run'
import { CatalogService } from '@licensing/proto/catalog'
import { createMailer } from './alerts/mailer.ts'
import { notifierConfig } from './config.ts'
import { attemptSettings, sessionSettings } from './database-settings.ts'
import { maxBatches } from './dispatch/attempt-writer.ts'
import { notifierMigrations } from './tables.ts'
import { startNotifier } from './notifier.ts'
import { keepPartitions } from './maintenance/maintenance.ts'

export const program = defineProgram(
  'notifier',
  (env) => readConfig(notifierConfig, env),
  async ({ log, health, onStop, step, stopping }, config) => {
    const retentionMs =
      1_000 * (config.WEBHOOK_PAYLOAD_RETENTION_SECONDS ?? 86_400 * config.WEBHOOK_PAYLOAD_RETENTION_DAYS)
    const forResults = Math.min(maxBatches, Math.floor(config.DATABASE_CONNECTIONS / 2))
    const sql = connect(config.DATABASE_URL, {
      name: 'notifier',
      max: config.DATABASE_CONNECTIONS - forResults,
      settings: sessionSettings,
    })
    onStop('database', () => sql.end({ timeout: 5 }))
    const attemptSql = connect(config.DATABASE_URL, {
      name: 'notifier-results',
      max: forResults,
      settings: attemptSettings,
    })
    onStop('database for results', () => attemptSql.end({ timeout: 5 }))
    await prepareDatabase({ sql, otherPools: [attemptSql], health, log, step, stopping }, async () => {
      await migrate(sql, notifierMigrations, step)
      step('partitions of events')
      await keepPartitions(sql, currentTime(), log, retentionMs)
    })

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'notifier', log, config.NATS_PASSWORD)
    onStop('nats', () => nats.close())
    const catalog = connectTo(CatalogService, config.CATALOG_ADDRESS, {
      sign: signCalls('notifier', 'catalog', config),
    })
    onStop('catalog channel', () => catalog.close())

    step('notifier')
    const notifier = startNotifier({
      sql,
      attemptSql,
      nats,
      log,
      clock: { now: currentTime },
      keys: config.ENCRYPTION_KEY,
      allowedNetworks: config.WEBHOOK_ALLOWED_CIDRS,
      deniedNetworks: config.WEBHOOK_DENIED_CIDRS,
      extraCa: config.WEBHOOK_CA_FILE && (await readFile(config.WEBHOOK_CA_FILE, 'utf8')),
      backoffSeconds: config.WEBHOOK_BACKOFF_SECONDS,
      retentionMs,
      deliveryRetentionMs:
        config.WEBHOOK_DELIVERY_RETENTION_DAYS && 86_400_000 * config.WEBHOOK_DELIVERY_RETENTION_DAYS,
      overlapHourSeconds: config.WEBHOOK_OVERLAP_HOUR_SECONDS,
      slots: config.WEBHOOK_SLOTS,
      alertEmail: async (accountId) =>
        (await catalog.calls.getAccount({ accountId })).confirmedAlertEmail ?? null,
      sendMail: config.SMTP_URL ? createMailer(config.SMTP_URL, config.SMTP_FROM) : undefined,
      publicUrl: config.PUBLIC_URL,
      relay: relaySettings(config),
    })
    onStop('notifier', () => notifier.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: notifier.services,
      log,
      health,
      checkCaller: checkCallers('notifier', config, log),
      isUnavailable: isDatabaseUnavailable,
      checkMoved: notifier.checkMoved,
    })
    onStop('server', () => server.stop())
  },
)

if (import.meta.main) program.run()
