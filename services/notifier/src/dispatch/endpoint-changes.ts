import type { Database } from '@licensing/database/connect'
import { isDatabaseOutage } from '@licensing/database/problems'
import type { Nats } from '@licensing/events/connection'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { listChangedEndpoints, findDatabaseTime, findEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'

const subject = 'notifier.endpoints-changed'
// While NATS is connected, and while it is not.
const lookEveryMs = { connected: 10_000, disconnected: 1_000 }
// Longer than a transaction may take from the statement that sets changed_at to its commit.
const overlapMs = 60_000
const subscribeAgainMs = 500

/**
 * Announces changes of endpoints to the other replicas over NATS, and calls `changed` for theirs. NATS may lose messages, so
 * the table is read regularly too, for all changes since the last reading that succeeded.
 */
export function watchEndpointChanges(options: {
  sql: Database
  nats: Nats
  log: Logger
  changed: (rows: EndpointRow[]) => void
}): { announce(endpointIds: string[]): void; stop(): Promise<void> } {
  const { sql, nats, log, changed } = options
  const failed = (error: unknown) => log.warn({ err: error }, 'changed endpoints could not be read')
  let lookedAt: Date | undefined
  const look = async () => {
    const now = await findDatabaseTime(sql)
    changed(await listChangedEndpoints(sql, new Date((lookedAt ?? now).getTime() - overlapMs)))
    lookedAt = now
    return nats.connected() ? lookEveryMs.connected : lookEveryMs.disconnected
  }
  // The loop of messages ends when the connection is replaced by another.
  const listen = async (signal: AbortSignal) => {
    await nats.whenConnected(signal)
    if (signal.aborted) return
    const subscription = nats.connection.subscribe(subject)
    const unsubscribe = () => subscription.unsubscribe()
    signal.addEventListener('abort', unsubscribe, { once: true })
    try {
      for await (const message of subscription) {
        await findEndpointRows(sql, message.json<string[]>()).then(changed, failed)
      }
    } finally {
      signal.removeEventListener('abort', unsubscribe)
    }
  }
  const loops = [
    startLoop({ work: look, everyMs: lookEveryMs.disconnected, failed, isOutage: isDatabaseOutage }),
    startLoop({ work: listen, everyMs: subscribeAgainMs, failed, isOutage: isDatabaseOutage }),
  ]

  return {
    announce(endpointIds) {
      if (!nats.connected()) return
      try {
        nats.connection.publish(subject, JSON.stringify(endpointIds))
      } catch (error) {
        failed(error)
      }
    },
    async stop() {
      await Promise.all(loops.map((loop) => loop.stop()))
    },
  }
}
