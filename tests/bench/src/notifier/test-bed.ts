import { create, toBinary } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import { connect as openDatabase } from '@licensing/database/connect'
import { firstPartitions, partitionOf } from '@licensing/events/partitions'
import { connectTo } from '@licensing/grpc/client'
import { startNats } from '@licensing/local-servers/nats'
import { freePort } from '@licensing/local-servers/ports'
import { startPostgres } from '@licensing/local-servers/postgres'
import { EventBatchSchema } from '@licensing/proto/event-log'
import { streamOf, subjectOf, subjectsOf } from '@licensing/proto/event-streams'
import { EventSchema } from '@licensing/proto/events'
import { NotifierService } from '@licensing/proto/notifier'
import { startService } from '@licensing/test-support/process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { connect } from 'nats'
import { randomBytes, randomUUID } from 'node:crypto'
import { startReceiver } from './start-receiver.ts'

/** A notifier with its own servers, and a receiver in a separate process. */
export type TestBed = Awaited<ReturnType<typeof startTestBed>>

export interface Vendor {
  accountId: string
  applicationId: string
  partition: number
}

export async function startTestBed(environment: Record<string, string> = {}) {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const server = started.use(await startPostgres({ dataDir: `${folder.path}/postgres`, durable: true }))
  const natsServer = started.use(await startNats({ dataDir: `${folder.path}/nats`, durable: true }))
  const receiver = started.use(await startReceiver(folder.path))

  const sql = openDatabase(server.url(), { name: 'bench', max: 20, statementTimeoutMs: 600_000 })
  started.defer(() => sql.end({ timeout: 1 }))
  const notifier = started.use(
    await startService(
      'notifier',
      {
        GRPC_ADDRESS: `127.0.0.1:${await freePort()}`,
        METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
        DATABASE_URL: server.url(),
        NATS_URL: natsServer.url,
        CATALOG_ADDRESS: `127.0.0.1:${await freePort()}`,
        ENCRYPTION_KEY: randomBytes(32).toString('base64url'),
        WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
        WEBHOOK_CA_FILE: receiver.caFile,
        LOG_LEVEL: 'warn',
        ...environment,
      },
      folder.path,
    ),
  )
  const channel = connectTo(NotifierService, notifier.environment['GRPC_ADDRESS']!)
  started.defer(() => channel.close())
  const nats = await connect({ servers: natsServer.url })
  started.defer(() => nats.close())
  const manager = await nats.jetstreamManager()
  await manager.streams.add({ name: streamOf('licensing'), subjects: [subjectsOf('licensing')] })
  const jetstream = nats.jetstream()
  const numbers = Array.from({ length: firstPartitions }, () => 0n)

  const running = started.move()
  return {
    sql,
    notifier,
    databaseUrl: server.url(),
    postgresPid: server.pid,
    natsPid: natsServer.pid,
    natsUrl: natsServer.url,
    authority: receiver.authority,
    url: receiver.url,
    /** Clients of the notifier's RPCs. */
    calls: channel.calls,
    /** Creates a vendor with endpoints at these paths. */
    async givenVendor(partition: number, paths: string[]): Promise<Vendor> {
      const of = { accountId: accountIn(partition), applicationId: `app_${randomUUID()}` }
      for (const path of paths) {
        await channel.calls.createEndpoint({
          ...of,
          fields: { url: receiver.url(path), subscribedEvents: '*' },
        })
      }
      return { ...of, partition }
    },
    /** Publishes one event as licensing's relay would. @returns its id */
    async publish({ partition, ...of }: Vendor): Promise<string> {
      const id = newId('evt')
      const value = { licenceId: 'lic_01k9v7f8qyf0cbe7bq2m7t1a2b', status: 'suspended', reason: 'manual' }
      const event = create(EventSchema, {
        ...of,
        id,
        occurredAt: timestampFromDate(new Date()),
        payload: { case: 'licenceSuspended', value },
      })
      numbers[partition]! += 1n
      const batch = create(EventBatchSchema, {
        epoch: 1n,
        partition,
        number: numbers[partition]!,
        events: [{ event: toBinary(EventSchema, event) }],
      })
      await jetstream.publish(subjectOf('licensing', partition), toBinary(EventBatchSchema, batch))
      return id
    },
    /** When the first delivery of each event arrived, by the clock of `machineMs`. */
    arrivals: () => receiver.arrivals(),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}

/** An account with its events in this partition. */
function accountIn(partition: number): string {
  for (;;) {
    const accountId = `acct_${randomUUID()}`
    if (partitionOf(accountId) === partition) return accountId
  }
}
