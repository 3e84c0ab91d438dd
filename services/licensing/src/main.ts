import { migrate } from '@licensing/database/migrate'
import { prepareDatabase } from '@licensing/database/prepare'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import { startConsumer } from '@licensing/events/consumer'
import { consumerMigrations, outboxMigrations } from '@licensing/events/migrations'
import { missedEventsService } from '@licensing/events/missed-events-service'
import { createOutbox } from '@licensing/events/outbox'
import { startRelay } from '@licensing/events/relay'
import { connectTo } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { readConfig } from '@licensing/process/config'
import { runProcess } from '@licensing/process/run'
import { CatalogService } from '@licensing/proto/catalog'
import { licensingConfig } from './config.ts'
import { connectPools } from './pools.ts'
import { startCatchUp } from './plans/catch-up.ts'
import { takePlanEvents } from './plans/plan-events.ts'
import { createSnapshots } from './plans/snapshots.ts'
import { productDeps } from './products/product-deps.ts'
import { productService } from './products/service.ts'
import { startUpkeep } from './products/upkeep.ts'
import { licensingService } from './service.ts'
import { startSweep } from './sweeps/sweep-expiries.ts'

await runProcess(
  'licensing',
  () => readConfig(licensingConfig),
  async ({ log, health, onStop, step, stopping }, config) => {
    const { sql, lists } = connectPools(config)
    onStop(
      'database',
      async () => void (await Promise.all([sql.end({ timeout: 5 }), lists.end({ timeout: 5 })])),
    )
    const migrations = { name: 'licensing', path: new URL('../migrations', import.meta.url).pathname }
    await prepareDatabase({ sql, health, log, step, stopping }, () =>
      migrate(sql, [outboxMigrations, consumerMigrations, migrations], step),
    )

    step('nats')
    const nats = await connectNats(config.NATS_URL, 'licensing', log)
    onStop('nats', () => nats.close())
    const streamReplicas = config.STREAM_REPLICAS
    const relay = startRelay({ sql, nats, source: 'licensing', streamReplicas, log })
    onStop('relay', () => relay.stop())
    const outbox = createOutbox(sql, () => relay.wake())

    const catalog = connectTo(CatalogService, config.CATALOG_ADDRESS.text)
    onStop('catalog channel', () => catalog.close())
    const deps = { sql, lists, snapshots: createSnapshots(sql), outbox, catalog: catalog.calls, log }
    const consumer = startConsumer({
      sql,
      nats,
      service: 'licensing',
      source: 'catalog',
      streamReplicas,
      log,
      handle: takePlanEvents,
      committed: () => relay.wake(),
      isTransient: isDatabaseUnavailable,
    })
    onStop('consumer', () => consumer.stop())
    const catchUp = startCatchUp({ ...deps, nats })
    onStop('catch-up', () => catchUp.stop())
    health.add('plan copies', () => catchUp.probe())

    const sweep = startSweep({ outbox, intervalMs: config.SWEEP_INTERVAL_SECONDS * 1000, log })
    onStop('sweep', () => sweep.stop())
    const upkeep = startUpkeep({ sql, tokenLifeSeconds: config.TOKEN_LIFE_SECONDS, log })
    onStop('upkeep', () => upkeep.stop())
    step('grpc server')
    const server = await serve({
      address: config.GRPC_ADDRESS,
      services: [
        licensingService(deps),
        productService(productDeps(deps, config)),
        missedEventsService([consumer]),
      ],
      log,
      health,
      isUnavailable: isDatabaseUnavailable,
    })
    onStop('server', () => server.stop())
  },
)
