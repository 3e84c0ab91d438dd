import type { Database } from '@licensing/database/connect'
import type { Nats } from '@licensing/events/connection'
import { pause } from '@licensing/events/pause'
import type { Logger } from '@licensing/process/log'
import { readChangedEndpoints, readDatabaseTime, readEndpointRows } from '../endpoints/endpoint-queries.ts'
import type { EndpointRow } from '../endpoints/endpoint-queries.ts'
import { Loop } from './loop.ts'

const subject = 'notifier.endpoints-changed'
const lookEveryMs = 1_000
// Longer than a transaction may take to commit its change after it noted the time: a statement, and standing still.
const overlapMs = 60_000
const subscribeAgainMs = 500

/**
 * Reports changes of endpoints to the other replicas: at once over NATS, and by a look at the table for what NATS did
 * not carry. A look goes back to the last one that succeeded, so that a replica that stood still misses nothing.
 */
export function startEndpointNews(options: {
  sql: Database
  nats: Nats
  log: Logger
  changed: (rows: EndpointRow[]) => void
}): { announce(endpointIds: string[]): void; stop(): Promise<void> } {
  const { sql, nats, log, changed } = options
  const stopped = new AbortController()
  const failed = (error: unknown) => log.warn({ err: error }, 'changed endpoints could not be read')
  let lookedAt: Date | undefined
  const look = async () => {
    const now = await readDatabaseTime(sql)
    changed(await readChangedEndpoints(sql, new Date((lookedAt ?? now).getTime() - overlapMs)))
    lookedAt = now
  }
  const looking = new Loop(look, lookEveryMs, failed)
  looking.start()

  const listen = async () => {
    while (!stopped.signal.aborted) {
      await nats.whenConnected(stopped.signal)
      if (stopped.signal.aborted) return
      try {
        for await (const message of nats.connection.subscribe(subject)) {
          await readEndpointRows(sql, message.json<string[]>()).then(changed, failed)
        }
      } catch (error) {
        failed(error)
      }
      // The connection was replaced by another.
      await pause(subscribeAgainMs, stopped.signal)
    }
  }
  void listen()

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
