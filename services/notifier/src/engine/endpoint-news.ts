import type { Database } from '@licensing/database/connect'
import type { Nats } from '@licensing/events/connection'
import type { Logger } from '@licensing/process/log'
import { readChangedEndpoints, readEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { Loop } from './loop.ts'

const subject = 'notifier.endpoints-changed'
const lookEveryMs = 1_000
// Longer than a transaction may take to commit its change after it noted the time.
const overlapSeconds = 10

/**
 * Tells the replicas of each other's changes of endpoints: at once over NATS, and by a look at the table for what NATS
 * did not carry.
 */
export function startEndpointNews(options: {
  sql: Database
  nats: Nats
  log: Logger
  changed: (rows: EndpointRow[]) => void
}): { announce(endpointIds: string[]): void; stop(): Promise<void> } {
  const { sql, nats, log, changed } = options
  const stopped = new AbortController()
  const failed = (error: unknown) => log.warn({ err: error }, 'changed endpoints not read')
  const looking = new Loop(
    async () => changed(await readChangedEndpoints(sql, overlapSeconds)),
    lookEveryMs,
    failed,
  )
  looking.start()

  const listen = async () => {
    await nats.whenConnected(stopped.signal)
    if (stopped.signal.aborted) return
    for await (const message of nats.connection.subscribe(subject)) {
      await readEndpointRows(sql, message.json<string[]>()).then(changed, failed)
    }
  }
  void listen().catch(failed)

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
      stopped.abort()
      await looking.stop()
    },
  }
}
