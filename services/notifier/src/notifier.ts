import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage, isDatabaseUnavailable, isRetryable } from '@licensing/database/problems'
import type { Nats } from '@licensing/events/connection'
import { startConsumer } from '@licensing/events/consumer'
import type { Consumer } from '@licensing/events/consumer'
import type { Logger } from '@licensing/process/log'
import { Loop } from '@licensing/process/loop'
import { sendAlerts } from './alerts/send-alerts.ts'
import type { AlertDeps } from './alerts/send-alerts.ts'
import type { Clock } from './clock.ts'
import { createBackoff } from './deliveries/backoff.ts'
import type { NotifierDeps } from './dependencies.ts'
import { Engine } from './engine/engine.ts'
import { startEndpointNews } from './engine/endpoint-news.ts'
import { takeInEvents } from './events/take-in-events.ts'
import type { Networks } from './sending/address.ts'
import { createAddressRefusal } from './sending/address.ts'
import { createConnector } from './sending/connector.ts'
import { createResolver, createSystemLookup } from './sending/resolver.ts'
import { Sender } from './sending/sender.ts'
import { webhookUrlProblem } from './sending/webhook-url.ts'
import type { EncryptionKeys } from '@licensing/database/encryption'
import { startUpkeep } from './upkeep/upkeep.ts'

export interface NotifierOptions {
  sql: Database
  nats: Nats
  log: Logger
  clock: Clock
  keys: EncryptionKeys
  allowedNetworks: Networks
  extraCa?: string | undefined
  backoffSeconds?: number[] | undefined
  slots: number
  streamReplicas: number
  alertEmail: AlertDeps['alertEmail']
  sendMail?: AlertDeps['sendMail']
}

const alertsEveryMs = 5_000

/**
 * Everything of the notifier but its gRPC server and its connections. Its database has the partitions of these weeks
 * (`keepPartitions`).
 */
export function startNotifier(options: NotifierOptions): {
  deps: NotifierDeps
  consumers: Consumer[]
  stop(): Promise<void>
} {
  const { sql, nats, log, clock, keys } = options

  const refusal = createAddressRefusal(options.allowedNetworks)
  const resolve = createResolver(createSystemLookup())
  const sender = new Sender({ connect: createConnector({ resolve, refusal, extraCa: options.extraCa }) })
  const alerts = new Loop({
    work: () => sendAlerts({ sql, log, alertEmail: options.alertEmail, sendMail: options.sendMail }),
    everyMs: alertsEveryMs,
    failed: (error) => log.warn({ err: error }, 'alerts could not be read, trying again'),
    isOutage: isDatabaseOutage,
  })
  const news = startEndpointNews({ sql, nats, log, changed: (rows) => engine.takeOver(rows) })
  const engine = new Engine({
    sql,
    sender,
    keys,
    clock,
    log,
    slots: options.slots,
    backoff: createBackoff(options.backoffSeconds),
    alertQueued: () => alerts.wake(),
    announce: (endpointIds) => news.announce(endpointIds),
  })
  const urlProblem = (url: string) => webhookUrlProblem(url, { resolve, refusal })
  const deps = { sql, clock, keys, engine, urlProblem }

  alerts.start()
  engine.start()
  const upkeep = startUpkeep({ sql, clock, log, measure: () => engine.measure() })
  const consumers = (['licensing', 'billing'] as const).map((source) =>
    startConsumer({
      sql,
      nats,
      source,
      log,
      streamReplicas: options.streamReplicas,
      service: 'notifier',
      handle: takeInEvents({ engine, clock, alertQueued: () => alerts.wake() }),
      isTransient: (error) => {
        // Events wait then, rather than go to the dead letters.
        if (isPartitionMissing(error)) upkeep.makePartitions()
        return isDatabaseUnavailable(error) || isRetryable(error) || isPartitionMissing(error)
      },
    }),
  )

  return {
    deps,
    consumers,
    async stop() {
      await Promise.all(consumers.map((consumer) => consumer.stop()))
      await Promise.all([upkeep.stop(), engine.stop(), news.stop()])
      await Promise.all([alerts.stop(), sender.close()])
    },
  }
}

/** As after the clock was set far ahead. */
function isPartitionMissing(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('no partition of relation')
}
