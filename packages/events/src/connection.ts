import { setTimeout as sleep } from 'node:timers/promises'
import { connect, DebugEvents, Events } from 'nats'
import type { ConnectionOptions, NatsConnection } from 'nats'
import type { Logger } from '@licensing/process/log'
import { pause } from '@licensing/process/loop'

/** A NATS connection that is kept until it is closed: it waits for the first server and reconnects by itself. */
export interface Nats {
  /** @throws Error before the first connection */
  connection: NatsConnection
  /** Whether it is connected now. */
  connected(): boolean
  /** Has `listener` called at each further connection: what the server kept for the one before may be lost. @returns how to end that */
  onReconnect(listener: () => void): () => void
  /** Resolves when connected. */
  whenConnected(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

const firstWaitMs = 2_000
// A server that accepts a connection and says nothing is tried again.
const handshakeMs = 3_000
const staleMs = 2_000
const retryMs = 250

/**
 * Connects to NATS. Resolves at once, also when no server answers yet: events then wait in the outbox.
 *
 * @param urls one or several, separated by commas: nats://host:4222; user and password of the first count for all
 * @param name of the service
 * @param password of the user of that name, where the addresses have no user
 */
export async function connectNats(urls: string, name: string, log: Logger, password?: string): Promise<Nats> {
  const options: ConnectionOptions = {
    ...(password !== undefined && { user: name, pass: password }),
    ...serversOf(urls),
    name,
    waitOnFirstConnect: true,
    timeout: handshakeMs,
    maxReconnectAttempts: -1,
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: 250,
    reconnectJitter: 100,
    pingInterval: 5_000,
    maxPingOut: 2,
    ignoreClusterUpdates: false,
  }
  const closed = new AbortController()
  const waiting = new Set<() => void>()
  const listeners = new Set<() => void>()
  let current: NatsConnection | undefined
  let isUp = false

  const up = (connection: NatsConnection) => {
    const isFirst = !current
    current = connection
    isUp = true
    for (const done of waiting) done()
    if (!isFirst) for (const listener of listeners) listener()
  }
  const down = () => {
    if (isUp && !closed.signal.aborted) log.warn('nats is unavailable')
    isUp = false
  }

  /** Follows a connection until it is closed permanently, which its status does not say. */
  const follow = (connection: NatsConnection) =>
    new Promise<void>((resolve, reject) => {
      const giveUp = () => {
        void connection.close()
        resolve()
      }
      const report = async () => {
        let stale: NodeJS.Timeout | undefined
        for await (const status of connection.status()) {
          clearTimeout(stale)
          if (status.type === Events.Disconnect) {
            down()
          } else if (status.type === Events.Reconnect) {
            up(connection)
            log.info('nats is available again')
          } else if (status.type === DebugEvents.StaleConnection) {
            // The client flushes before it disconnects, and waits forever where the socket takes nothing.
            stale = setTimeout(giveUp, staleMs)
          }
        }
      }
      void connection.closed().then(() => resolve())
      report().catch(reject)
    })

  const keep = async () => {
    while (!closed.signal.aborted) {
      try {
        const connection = await connect(options)
        if (closed.signal.aborted) {
          await connection.close()
          return
        }
        if (current) log.info('nats is available again')
        up(connection)
        await follow(connection)
      } catch (error) {
        log.warn({ err: error }, 'cannot connect to nats, trying again')
      }
      down()
      await pause(retryMs, closed.signal)
    }
  }
  void keep()

  const whenConnected = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      if (isUp || signal.aborted) return resolve()
      const done = () => {
        waiting.delete(done)
        signal.removeEventListener('abort', done)
        resolve()
      }
      waiting.add(done)
      signal.addEventListener('abort', done)
    })
  await whenConnected(AbortSignal.any([closed.signal, AbortSignal.timeout(firstWaitMs)]))
  if (!isUp) log.warn('nats does not answer yet; events wait until it does')
  return {
    get connection() {
      if (!current) throw new Error('nats is not connected yet')
      return current
    },
    connected: () => isUp,
    onReconnect(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    whenConnected,
    async close() {
      closed.abort()
      isUp = false
      await Promise.race([current?.close(), sleep(staleMs, undefined, { ref: false })])
    },
  }
}

/** The client takes user and password beside the addresses, not in them. */
export function serversOf(urls: string): { servers: string[]; user?: string; pass?: string } {
  const parsed = urls
    .split(',')
    .map((url) => new URL(url.includes('://') ? url.trim() : `nats://${url.trim()}`))
  const { username, password } = parsed[0]!
  return {
    servers: parsed.map(({ host }) => host),
    ...(username !== '' && { user: decodeURIComponent(username), pass: decodeURIComponent(password) }),
  }
}
