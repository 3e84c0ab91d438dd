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
import { LicensingService } from '@licensing/proto/licensing'
import { bootstrap } from './accounts/bootstrap.ts'
import { createKeyUse } from './api-keys/key-use.ts'
import { createTurns } from './applications/turns.ts'
import { catalogConfig } from './config.ts'
import { catalogMigrations } from './migrations.ts'
import { catalogService } from './service.ts'

await runProcess(
  'catalog',
  () => readConfig(catalogConfig),
  async ({ log, health, onStop, step, stopping }, config) => {
    const sql = connect(config.DATABASE_URL, { name: 'catalog', max: config.DATABASE_CONNECTIONS })
    onStop('database', () => sql.end({ timeout: 5 }))
    await prepareDatabase({ sql, health, log, step, stopping }, async () => {
      await migrate(sql, catalogMigrations, step)
      step('bootstrap')
      await bootstrap(sql, config)
    })

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'catalog', log)
    onStop('nats', () => nats.close())
    const relay = startRelay({ sql, nats, source: 'catalog', streamReplicas: config.STREAM_REPLICAS, log })
    onStop('relay', () => relay.stop())

    const licensing = connectTo(LicensingService, config.LICENSING_ADDRESS.text)
    onStop('licensing channel', () => licensing.close())
    const keyUse = createKeyUse(sql, log)
    onStop('use of keys', () => keyUse.stop())
    const outbox = createOutbox(sql, () => relay.wake())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: [catalogService({ sql, outbox, changes: createTurns(), licensing, keyUse, log })],
      log,
      health,
      isUnavailable: isDatabaseUnavailable,
    })
    onStop('server', () => server.stop())
  },
)
