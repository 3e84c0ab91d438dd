import { connect } from '@licensing/database/connect'
import { migrate } from '@licensing/database/migrate'
import { createLogger } from '@licensing/process/log'
import type { Source } from '@licensing/proto/event-streams'
import type { Event } from '@licensing/proto/events'
import { createTestDatabase } from '@licensing/test-support/database'
import { connectNats } from '../connection.ts'
import { outboxMigrations } from '../migrations.ts'
import { batchOf } from '../outbox.ts'
import { insertEvents } from '../outbox-queries.ts'
import { hashOf } from '../partitions.ts'
import { startRelay } from '../relay.ts'

export type Producer = Awaited<ReturnType<typeof givenProducer>>

const log = createLogger('producer', process.env['TEST_LOG_LEVEL'] ?? 'silent')

/**
 * A service that sends events, with a database of its own: its outbox, its relay and its log.
 *
 * @param natsUrl with the rights of that service
 */
export async function givenProducer(natsUrl: string, source: Source) {
  await using started = new AsyncDisposableStack()
  const database = started.use(await createTestDatabase())
  const sql = connect(database.url, { name: `${source}-producer`, max: 3 })
  started.defer(() => sql.end({ timeout: 5 }))
  await migrate(sql, [outboxMigrations])
  const nats = await connectNats(natsUrl, source, log)
  started.defer(() => nats.close())
  const relay = startRelay({ sql, nats, source, streamReplicas: 1, log })
  started.defer(() => relay.stop())
  const running = started.move()
  return {
    sql,
    /** Commits events in one transaction, in order. */
    async publish(events: Event[], traceParent?: string): Promise<void> {
      const rows = events.map((event) => ({
        account_id: event.accountId,
        account_hash: hashOf(event.accountId),
        payload: batchOf(event, traceParent ?? null),
      }))
      await insertEvents(sql, rows)
      relay.wake()
    },
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  }
}
