import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { migrate } from '@licensing/database/migrate'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { connectNats } from '@licensing/events/connection'
import type { Nats } from '@licensing/events/connection'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { serve } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import type { Event } from '@licensing/proto/events'
import type { Delivery } from '@licensing/proto/notifier'
import { NotifierService } from '@licensing/proto/notifier'
import { createTestDatabase } from '@licensing/test-support/database'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { startOwnNats } from '@licensing/test-support/nats'
import type { OwnNats } from '@licensing/test-support/nats'
import type { Clock } from '../src/clock.ts'
import { attemptSettings } from '../src/database-settings.ts'
import { notifierMigrations } from '../src/migrations.ts'
import type { NotifierOptions } from '../src/notifier.ts'
import { startNotifier } from '../src/notifier.ts'
import { keepPartitions } from '../src/maintenance/maintenance.ts'
import { parseNetworks } from '../src/http-client/address.ts'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { givenEvent, publish, stopProducers } from './events.ts'

type Options = Partial<
  Pick<
    NotifierOptions,
    'backoffSeconds' | 'slots' | 'alertEmail' | 'sendMail' | 'publicUrl' | 'allowedNetworks'
  >
> & {
  receiver?: Pick<HttpsReceiver, 'caFile'>
}

/** A clock that tests can advance. */
class TestClock implements Clock {
  #offsetMs = 0

  now(): Date {
    return new Date(Date.now() + this.#offsetMs)
  }

  advance(ms: number): void {
    this.#offsetMs += ms
  }
}

/** The first page of a list, of the usual size. */
export const firstPage = { limit: 0, beforeId: '' }

/** A notifier in this process, with its own database and NATS server, and one vendor's account. */
export interface TestNotifier extends AsyncDisposable {
  calls: ServiceClient<typeof NotifierService>
  /** The address of its gRPC server. */
  address: string
  sql: Database
  databaseUrl: string
  /** Publishes events as the other services do. */
  nats: Nats
  natsServer: OwnNats
  clock: TestClock
  /** The account and application that every request names. */
  of: { accountId: string; applicationId: string }
  /** Registers an endpoint. */
  register(url: string, subscribedEvents?: string): Promise<{ id: string; secret: string }>
  /** Publishes licensing's events about suspended licences. */
  happen(count?: number): Promise<Event[]>
  deliveries(filter?: { endpointId?: string; status?: string }): Promise<Delivery[]>
  /** Another notifier on the same database and NATS server. */
  replica(): Promise<{ calls: ServiceClient<typeof NotifierService> } & AsyncDisposable>
}

const log = createLogger('notifier', process.env['TEST_LOG_LEVEL'] ?? 'silent')
const key = randomBytes(32).toString('base64url')

export async function startTestNotifier(options: Options = {}): Promise<TestNotifier> {
  await using started = new AsyncDisposableStack()
  const database = started.use(await createTestDatabase())
  const natsServer = started.use(await startOwnNats())
  started.defer(() => stopProducers(natsServer))
  const sql = connect(database.url, { name: 'notifier', settings: { plan_cache_mode: 'force_custom_plan' } })
  started.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, notifierMigrations)
  const nats = await connectNats(natsServer.url, 'test', log)
  started.defer(() => nats.close())
  const own = await connectNats(natsServer.urlOf('notifier'), 'notifier', log)
  started.defer(() => own.close())
  const clock = new TestClock()
  await keepPartitions(sql, clock.now(), log)
  const start = () => startReplica({ sql, databaseUrl: database.url, nats: own, clock }, options)
  const { calls, address } = started.use(await start())

  const of = { accountId: newId('acct'), applicationId: newId('app') }
  const running = started.move()
  return {
    calls,
    address,
    sql,
    databaseUrl: database.url,
    nats,
    natsServer,
    clock,
    of,
    replica: start,
    async register(url, subscribedEvents = '*') {
      const { endpoint, secret } = await calls.createEndpoint({ ...of, url, subscribedEvents })
      return { id: endpoint!.id, secret }
    },
    async happen(count = 1) {
      const events = Array.from({ length: count }, () =>
        givenEvent({
          ...of,
          payload: {
            case: 'licenceSuspended',
            value: { licenceId: newId('lic'), status: 'suspended', reason: 'manual' },
          },
        }),
      )
      await publish({ natsServer }, events)
      return events
    },
    async deliveries(filter = {}) {
      return (await calls.listDeliveries({ ...of, ...firstPage, limit: 200, ...filter })).deliveries
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

async function startReplica(
  { sql, databaseUrl, nats, clock }: { sql: Database; databaseUrl: string; nats: Nats; clock: Clock },
  options: Options,
) {
  await using started = new AsyncDisposableStack()
  const attemptSql = connect(databaseUrl, { name: 'notifier-results', max: 2, settings: attemptSettings })
  started.defer(() => attemptSql.end({ timeout: 5 }))
  const { receiver, ...given } = options
  const notifier = startNotifier({
    sql,
    attemptSql,
    nats,
    log,
    clock,
    keys: parseEncryptionKeys(key),
    allowedNetworks: parseNetworks('127.0.0.0/8,::1/128'),
    extraCa: receiver && (await readFile(receiver.caFile, 'utf8')),
    slots: 64,
    alertEmail: () => Promise.resolve(null),
    ...given,
  })
  started.defer(() => notifier.stop())
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: notifier.services,
    log,
    health: new Health(),
    isUnavailable: isDatabaseUnavailable,
  })
  started.defer(() => server.stop())
  const address = `127.0.0.1:${server.port}`
  const channel = connectTo(NotifierService, address, { timeoutMs: 30_000 })
  started.defer(() => channel.close())
  const running = started.move()
  return { calls: channel.calls, address, [Symbol.asyncDispose]: () => running.disposeAsync() }
}
