import { createChange } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage, isDatabaseUnavailable } from '@licensing/database/problems'
import type { Nats } from '@licensing/events/connection'
import { startRelay } from '@licensing/events/relay'
import type { RelaySettings } from '@licensing/events/relay'
import { startConsumer } from '@licensing/events/consumer'
import { deadLettersService } from '@licensing/events/dead-letters-service'
import type { ServeOptions } from '@licensing/grpc/server'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import { startPurge } from '@licensing/changes/purge'
import { Loop } from '@licensing/process/loop'
import { quotaService } from '@licensing/changes/quota-service'
import { startMoves } from '@licensing/moves/moves'
import type { Moves } from '@licensing/moves/moves'
import { accountTables, underWay } from './tables.ts'
import { sendAlerts } from './alerts/send-alerts.ts'
import type { AlertDependencies } from './alerts/send-alerts.ts'
import { createBackoff, remainingMs } from './deliveries/backoff.ts'
import type { NotifierDependencies } from './dependencies.ts'
import { Dispatcher } from './dispatch/dispatcher.ts'
import { watchEndpointChanges } from './dispatch/endpoint-changes.ts'
import { makePartitionsOf } from './events/event-partitions.ts'
import { consumeEvents, findKnownEvents } from './events/record-events.ts'
import type { Networks } from './http-client/address.ts'
import { createAddressRefusal } from './http-client/address.ts'
import type { EndpointRow } from './endpoints/endpoint-queries.ts'
import { secretsService } from './endpoints/endpoint-secrets.ts'
import { createConnector } from './http-client/connector.ts'
import { createResolver, createSystemLookup } from './http-client/resolver.ts'
import { Sender } from './http-client/sender.ts'
import { webhookUrlProblem } from './http-client/webhook-url.ts'
import { notifierService } from './service.ts'
import { startMaintenance } from './maintenance/maintenance.ts'
import { keptSince, payloadMs } from './retention.ts'

const alertsEveryMs = 5_000

export interface NotifierOptions extends Pick<NotifierDependencies, 'sql' | 'log' | 'clock' | 'keys'> {
  /** A second pool, with `attemptSettings`. */
  attemptSql: Database
  nats: Nats
  allowedNetworks: Networks
  deniedNetworks?: Networks
  extraCa?: string | undefined
  backoffSeconds?: number[] | undefined
  /** How long payloads are kept, in milliseconds; default: 90 days. */
  retentionMs?: number | undefined
  /** How long finished deliveries are kept, in milliseconds; default: permanently. */
  deliveryRetentionMs?: number | undefined
  overlapHourSeconds?: number | undefined
  slots: number
  alertEmail: AlertDependencies['alertEmail']
  sendMail?: AlertDependencies['sendMail']
  /** The public address of the gateway. Links in mails begin with it. */
  publicUrl?: string | undefined
  relay: RelaySettings
}

export interface Notifier {
  deps: NotifierDependencies
  services: ServeOptions['services']
  checkMoved: Moves['check']
  stop(): Promise<void>
}

/**
 * Starts all of the notifier except its connections and its RPC server. The database has to be migrated, and to have the
 * current partitions of events (`keepPartitions`).
 */
export function startNotifier(options: NotifierOptions): Notifier {
  const { sql, attemptSql, nats, log, clock, keys } = options

  const refusal = createAddressRefusal(options.allowedNetworks, undefined, options.deniedNetworks)
  const resolve = createResolver(createSystemLookup())
  const sender = new Sender({ connect: createConnector({ resolve, refusal, extraCa: options.extraCa }) })
  const relay = startRelay({ sql, nats, source: 'notifier', log, ...options.relay })
  // An endpoint that is disabled has an alert and an entry of the audit log.
  const alertQueued = () => {
    alerts.wake()
    relay.wake()
  }
  const backoff = createBackoff(options.backoffSeconds)
  const { retentionMs = payloadMs, overlapHourSeconds = 3_600 } = options
  const kept = () => keptSince(clock.now(), retentionMs)
  const alerts = new Loop({
    work: (signal) =>
      sendAlerts({ sql, log, alertEmail: options.alertEmail, sendMail: options.sendMail }, signal),
    everyMs: alertsEveryMs,
    failed: (error) => log.warn({ err: error }, 'alerts could not be read, trying again'),
    isOutage: isDatabaseOutage,
  })
  const changed = (rows: EndpointRow[]) => dispatcher.applyChanges(rows)
  const endpointChanges = watchEndpointChanges({ sql, nats, log, changed })
  const dispatcher = new Dispatcher({
    sql,
    attemptSql,
    sender,
    keys,
    clock,
    log,
    slots: options.slots,
    backoff,
    keptSince: kept,
    alertQueued,
    attemptsRecorded: (attempts) => maintenance.attemptsRecorded(attempts),
    notifyReplicas: (endpointIds) => endpointChanges.notifyReplicas(endpointIds),
  })
  const refused = (host: string, reason: string) => log.info({ host, reason }, 'a webhook URL was refused')
  const urlProblem = (url: string) => webhookUrlProblem(url, { resolve, refusal, refused })
  const registrations = createKeyedQueue(
    'other endpoints are being registered for this application: try again',
  )
  const { sendMail, publicUrl } = options
  const change = createChange(sql, () => relay.wake())
  const waits = {
    keptSince: kept,
    overlapHourMs: overlapHourSeconds * 1000,
    remainingMs: remainingMs(backoff),
  }
  const calls = { change, dispatcher, urlProblem, registrations, sendMail, publicUrl }
  const deps = { sql, log, clock, keys, ...waits, ...calls }

  alerts.start()
  dispatcher.start()
  const measure = () => dispatcher.measure()
  const maintenance = startMaintenance({
    sql,
    clock,
    log,
    measure,
    alertQueued,
    remainingMs: deps.remainingMs,
    retentionMs,
    deliveryRetentionMs: options.deliveryRetentionMs,
  })
  const purge = startPurge({ sql, log })
  const moves = startMoves({
    sql,
    log,
    tables: accountTables,
    underWay,
    prepare: (page) => makePartitionsOf(sql, page),
  })
  const handle = consumeEvents({ dispatcher, clock, alertQueued })
  const isTransient = (error: unknown) => {
    // A transient error makes the events wait. They do not become dead letters.
    if (isPartitionMissing(error)) maintenance.makePartitions()
    return isDatabaseUnavailable(error) || isPartitionMissing(error)
  }
  const consuming = { sql, nats, log, service: 'notifier', handle, isTransient, findKnown: findKnownEvents }
  const consumers = (['licensing', 'billing'] as const).map((source) =>
    startConsumer({ ...consuming, source }),
  )

  return {
    deps,
    services: [
      notifierService(deps),
      deadLettersService({ sql, log, isTransient, handlers: { licensing: handle, billing: handle } }),
      secretsService(sql, keys),
      quotaService(change, ['webhook_endpoints', 'idempotency_bytes']),
      moves.service,
    ],
    checkMoved: moves.check,
    async stop() {
      await Promise.all(consumers.map((consumer) => consumer.stop()))
      await Promise.all([
        maintenance.stop(),
        purge.stop(),
        moves.stop(),
        dispatcher.stop(),
        endpointChanges.stop(),
      ])
      await Promise.all([alerts.stop(), sender.close(), relay.stop()])
    },
  }
}

/** The partition is missing, for example, after the clock was set far ahead. */
function isPartitionMissing(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('no partition of relation')
}
