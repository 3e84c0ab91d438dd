import { randomBytes } from 'node:crypto'
import { connect } from '@licensing/database/connect'
import type { Database } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { connectTo } from '@licensing/grpc/client'
import type { ServiceClient } from '@licensing/grpc/client'
import { freePort } from '@licensing/local-servers/ports'
import type { Event } from '@licensing/proto/events'
import { NotifierService } from '@licensing/proto/notifier'
import { createTestDatabase } from '@licensing/test-support/database'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import { startOwnNats } from '@licensing/test-support/nats'
import type { OwnNats } from '@licensing/test-support/nats'
import { startService } from '@licensing/test-support/process'
import type { TestProcess } from '@licensing/test-support/test-process'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { givenLicenceEvent, publish, stopProducers } from './events.ts'

/** Notifiers as separate processes, which a test can kill. */
export interface TestProcesses extends AsyncDisposable {
  processes: TestProcess[]
  calls: ServiceClient<typeof NotifierService>
  sql: Database
  natsServer: OwnNats
  of: { accountId: string; applicationId: string }
  register(url: string): Promise<string>
  happen(count: number, traceParent?: string): Promise<Event[]>
  countOf(status: string): Promise<number>
}

export async function startProcesses(options: {
  receiver: HttpsReceiver
  count?: number
  environment?: Record<string, string>
  databaseServerUrl?: string
}): Promise<TestProcesses> {
  await using started = new AsyncDisposableStack()
  const folder = started.use(await makeTemporaryFolder())
  const database = started.use(await createTestDatabase(options.databaseServerUrl))
  const natsServer = started.use(await startOwnNats())
  started.defer(() => stopProducers(natsServer))
  const encryptionKey = randomBytes(32).toString('base64url')
  const start = async (index: number) =>
    startService(
      'notifier',
      {
        GRPC_ADDRESS: `127.0.0.1:${await freePort()}`,
        METRICS_ADDRESS: `127.0.0.1:${await freePort()}`,
        DATABASE_URL: database.url,
        NATS_URL: natsServer.urlOf('notifier'),
        CATALOG_ADDRESS: `127.0.0.1:${await freePort()}`,
        ENCRYPTION_KEY: encryptionKey,
        WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128',
        WEBHOOK_CA_FILE: options.receiver.caFile,
        LOG_LEVEL: 'warn',
        ...options.environment,
      },
      folder.path,
      { name: `notifier-${index}` },
    )
  const processes = await Promise.all(Array.from({ length: options.count ?? 2 }, (_, i) => start(i)))
  for (const each of processes) started.use(each)
  const sql = connect(database.url, { name: 'test', max: 2 })
  started.defer(() => sql.end({ timeout: 1 }))
  const channel = connectTo(NotifierService, processes[0]!.environment['GRPC_ADDRESS']!, {
    timeoutMs: 30_000,
  })
  started.defer(() => channel.close())

  const of = { accountId: newId('acct'), applicationId: newId('app') }
  const running = started.move()
  return {
    processes,
    calls: channel.calls,
    sql,
    natsServer,
    of,
    async register(url) {
      const { endpoint } = await channel.calls.createEndpoint({
        ...of,
        fields: { url, subscribedEvents: '*' },
      })
      return endpoint!.id
    },
    async happen(count, traceParent) {
      const events = Array.from({ length: count }, () => givenLicenceEvent(of))
      await publish({ natsServer }, events, { ...(traceParent && { traceParent }) })
      return events
    },
    async countOf(status) {
      const [row] = await sql<{ count: bigint }[]>`
        select count(*) as count from deliveries where status = ${status}`
      return Number(row!.count)
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
