import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import { databaseTime } from '@licensing/database/time-queries'
import type { Nats } from '@licensing/events/connection'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { findEndpointRows, listChangedEndpoints } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'

const subject = 'notifier.endpoints-changed'
// How often the table is read, while NATS is connected and while it is not.
const pollMs = { connected: 10_000, disconnected: 1_000 }
// Longer than a transaction may take from the statement that sets changed_at to its commit.
const overlapMs = 60_000

/**
 * Announces changes of endpoints to the other replicas over NATS, and calls `changed` for the changes that they announce. NATS
 * may lose messages, so the table is read regularly too, for all changes since the last reading that succeeded.
 */
export function watchEndpointChanges(options: {
  sql: Database
  nats: Nats
  log: Logger
  changed: (rows: EndpointRow[]) => void
}): { notifyReplicas(endpointIds: string[]): void; stop(): Promise<void> } {
  const { sql, nats, log, changed } = options
  const failed = (error: unknown) => log.warn({ err: error }, 'changed endpoints could not be read')
  let lastReadAt: Date | undefined
  const readChanges = async () => {
    const now = await databaseTime(sql)
    changed(await listChangedEndpoints(sql, new Date((lastReadAt ?? now).getTime() - overlapMs)))
    lastReadAt = now
    return nats.connected() ? pollMs.connected : pollMs.disconnected
  }
  const loop = startLoop({
    work: readChanges,
    everyMs: pollMs.disconnected,
    failed,
    isOutage: isDatabaseOutage,
  })
  // Messages are processed one after another, because an older state of an endpoint must not replace a newer one.
  let reading = Promise.resolve()
  const unsubscribe = nats.subscribe(subject, (message) => {
    reading = reading.then(() => findEndpointRows(sql, message.json<string[]>())).then(changed, failed)
  })

  return {
    notifyReplicas(endpointIds) {
      if (!nats.connected()) return
      try {
        nats.connection.publish(subject, JSON.stringify(endpointIds))
      } catch (error) {
        failed(error)
      }
    },
    async stop() {
      unsubscribe()
      await Promise.all([loop.stop(), reading])
    },
  }
}
