import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
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
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { startOwnNats } from '@licensing/test-support/nats'
import type { OwnNats } from '@licensing/test-support/nats'
import { eventually } from '@licensing/test-support/poll'
import { afterAll, beforeAll, expect } from 'vitest'
import type { Clock } from '@licensing/process/clock'
import { attemptSettings } from '../src/database-settings.ts'
import type { NotifierOptions } from '../src/notifier.ts'
import { startNotifier } from '../src/notifier.ts'
import { keepPartitions } from '../src/maintenance/maintenance.ts'
import { parseNetworks } from '../src/http-client/address.ts'
import { parseEncryptionKeys } from '@licensing/database/encryption'
import { givenDatabase } from './database.ts'
import { givenLicenceEvent, publish, stopProducers } from './events.ts'

type Options = Partial<
  Pick<NotifierOptions, 'backoffSeconds' | 'slots' | 'alertEmail' | 'sendMail' | 'publicUrl'>
>

/** A clock that tests can advance. Deliveries that are due at the new time are sent at once. */
class TestClock implements Clock {
  readonly advanced: (() => void)[] = []
  #offsetMs = 0

  now(): Date {
    return new Date(Date.now() + this.#offsetMs)
  }

  advance(ms: number): void {
    this.#offsetMs += ms
    for (const wake of this.advanced) wake()
  }
}

/** The first page of a list, of the usual size. */
export const firstPage = { limit: 0, beforeId: '' }

/** A notifier in this process, with its own database and NATS server, which trusts every receiver, and one vendor's account. */
export interface TestNotifier extends AsyncDisposable {
  calls: ServiceClient<typeof NotifierService>
  /** The address of its gRPC server. */
  address: string
  sql: Database
  databaseUrl: string
  natsServer: OwnNats
  clock: TestClock
  /** The account and application that every request names. */
  of: { accountId: string; applicationId: string }
  /** The same notifier for another vendor's account. */
  another(): TestNotifier
  /** Registers an endpoint. */
  register(url: string, subscribedEvents?: string): Promise<{ id: string; secret: string }>
  /** Publishes licensing's events about suspended licences. */
  happen(count?: number): Promise<Event[]>
  deliveries(filter?: { endpointId?: string; status?: string }): Promise<Delivery[]>
  /** Waits until the newest delivery has these properties, and returns it. */
  delivery(expected: Partial<Delivery>, filter?: { endpointId?: string }): Promise<Delivery>
  /** Another notifier on the same database and NATS server. */
  replica(): Promise<{ calls: ServiceClient<typeof NotifierService> } & AsyncDisposable>
}

const log = createLogger('notifier', process.env['TEST_LOG_LEVEL'] ?? 'silent')
const key = randomBytes(32).toString('base64url')

/** A notifier for all tests of a file. Each call of the result returns it with another vendor's account. */
export function notifierOfFile(options: Options = {}): () => TestNotifier {
  let shared: TestNotifier
  beforeAll(async () => {
    shared = await startTestNotifier(options)
  })
  afterAll(() => shared[Symbol.asyncDispose]())
  return () => shared.another()
}

export async function startTestNotifier(options: Options = {}): Promise<TestNotifier> {
  await using started = new AsyncDisposableStack()
  const natsServer = started.use(await startOwnNats())
  started.defer(() => stopProducers(natsServer))
  const { url, sql } = started.use(
    await givenDatabase({ name: 'notifier', settings: { plan_cache_mode: 'force_custom_plan' } }),
  )
  const nats = await connectNats(natsServer.urlOf('notifier'), 'notifier', log)
  started.defer(() => nats.close())
  const clock = new TestClock()
  await keepPartitions(sql, clock.now(), log)
  const start = () => startReplica({ sql, databaseUrl: url, nats, clock }, options)
  const { calls, address } = started.use(await start())

  const running = started.move()
  const ofAnother = (): TestNotifier => {
    const of = { accountId: newId('acct'), applicationId: newId('app') }
    const deliveries = async (filter = {}) =>
      (await calls.listDeliveries({ ...of, ...firstPage, limit: 200, ...filter })).deliveries
    return {
      calls,
      address,
      sql,
      databaseUrl: url,
      natsServer,
      clock,
      of,
      another: ofAnother,
      replica: start,
      deliveries,
      async register(url, subscribedEvents = '*') {
        const { endpoint, secret } = await calls.createEndpoint({ ...of, fields: { url, subscribedEvents } })
        return { id: endpoint!.id, secret }
      },
      async happen(count = 1) {
        const events = Array.from({ length: count }, () => givenLicenceEvent(of))
        await publish({ natsServer }, events)
        return events
      },
      delivery: (expected, filter) =>
        eventually(async () => {
          const [delivery] = await deliveries(filter)
          expect(delivery).toMatchObject(expected)
          return delivery!
        }),
      [Symbol.asyncDispose]: () => running.disposeAsync(),
    }
  }
  return ofAnother()
}

async function startReplica(
  { sql, databaseUrl, nats, clock }: { sql: Database; databaseUrl: string; nats: Nats; clock: TestClock },
  options: Options,
) {
  await using started = new AsyncDisposableStack()
  const attemptSql = connect(databaseUrl, { name: 'notifier-results', max: 2, settings: attemptSettings })
  started.defer(() => attemptSql.end({ timeout: 5 }))
  // All receivers of a process have the same authority.
  await using receiver = await startHttpsReceiver()
  const notifier = startNotifier({
    sql,
    attemptSql,
    nats,
    log,
    clock,
    keys: parseEncryptionKeys(key),
    allowedNetworks: parseNetworks('127.0.0.0/8,::1/128'),
    extraCa: await readFile(receiver.caFile, 'utf8'),
    slots: 64,
    alertEmail: () => Promise.resolve(null),
    relay: { streamReplicas: 1 },
    ...options,
  })
  clock.advanced.push(() => notifier.deps.dispatcher.wake())
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
