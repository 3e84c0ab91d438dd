import { connect, DebugEvents, Events } from 'nats'
import type { ConnectionOptions, Msg, NatsConnection } from 'nats'
import type { Logger } from '@licensing/process/log'
import { startLoop } from '@licensing/process/loop'
import { pause } from '@licensing/process/retry'
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'

/** A NATS connection that is kept until it is closed: it waits for the first server and reconnects by itself. */
export interface Nats {
  /** @throws Error before the first connection */
  readonly connection: NatsConnection
  /** Whether it is connected now. */
  connected(): boolean
  /** Resolves when connected, or when the signal aborts. */
  whenConnected(signal: AbortSignal): Promise<void>
  /** Calls `listener` at each reconnection: the server may have forgotten its consumers. @returns a function that ends it */
  onReconnect(listener: () => void): () => void
  /** Calls `handle` with each message of a subject, also after reconnections. @returns a function that ends it */
  subscribe(subject: string, handle: (message: Msg) => void, queue?: string): () => void
  close(): Promise<void>
}

const firstWaitMs = 2_000
// If a server accepts a connection but sends nothing, the client tries again after this time.
const handshakeMs = 3_000
const retryMs = 250
const flushMs = 1_000
const memberCheckMs = 5_000
const memberAnswerMs = 2_000

/**
 * Connects to NATS. Resolves after two seconds at most, even if no server answers yet: events then wait in the outbox.
 *
 * @param urls one or more, separated by commas: nats://host:4222; user and password of the first are used for all
 * @param name of the service
 * @param password of the user of that name, if the addresses have no user
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
    // A connection on which the server is silent is replaced after 9 seconds.
    pingInterval: 3_000,
    maxPingOut: 2,
    ignoreClusterUpdates: false,
  }
  const closed = new AbortController()
  const events = new EventEmitter<{ up: []; again: [] }>().setMaxListeners(0)
  const subscriptions = new Set<(connection: NatsConnection) => void>()
  let current: NatsConnection | undefined
  let isUp = false

  const up = (isFirst: boolean) => {
    isUp = true
    events.emit('up')
    if (isFirst) return
    log.info('nats is available again')
    events.emit('again')
  }
  const down = () => {
    if (isUp && !closed.signal.aborted) log.warn('nats is unavailable')
    isUp = false
  }
  const watch = async (connection: NatsConnection) => {
    for await (const { type } of connection.status()) {
      if (type === Events.Disconnect) down()
      else if (type === Events.Reconnect) up(false)
      // A reconnection would flush first, and wait forever if the socket accepts no data.
      else if (type === DebugEvents.StaleConnection) void connection.close()
    }
  }
  /** Uses one connection until it is closed. The client reconnects it while the servers are unavailable. */
  const useConnection = async () => {
    const connection = await connect(options)
    if (closed.signal.aborted) return connection.close()
    const isFirst = !current
    current = connection
    for (const subscribe of subscriptions) subscribe(connection)
    up(isFirst)
    void watch(connection)
    await connection.closed()
  }
  const keep = async () => {
    while (!closed.signal.aborted) {
      await useConnection().catch((error: unknown) =>
        log.warn({ err: error }, 'cannot connect to nats, trying again'),
      )
      down()
      await pause(retryMs, closed.signal)
    }
  }
  const whenConnected = async (signal: AbortSignal) => {
    if (!isUp && !signal.aborted) await once(events, 'up', { signal }).catch(() => {})
  }
  void keep()
  let failedChecks = 0
  /**
   * Leaves a server that is cut off from the others of its cluster. It still serves its clients, but their messages reach
   * nobody else. The leader of the cluster answers the question, so a server that is cut off gets no answer.
   */
  const leaveCutOffServer = async () => {
    if (!current || !isUp) return
    if (current.info?.cluster === undefined) return 'idle'
    try {
      await current.jetstreamManager({ timeout: memberAnswerMs })
      failedChecks = 0
    } catch {
      failedChecks += 1
      // Perhaps no server has a leader. Then it tries the others more and more seldom: after 2, 4, 8… failures.
      if (failedChecks < 2 || !Number.isInteger(Math.log2(failedChecks))) return
      log.warn({ server: current.getServer() }, 'the nats server has no leader, connecting to another server')
      await current.reconnect()
    }
    return undefined
  }
  const memberLoop = startLoop({
    work: leaveCutOffServer,
    everyMs: memberCheckMs,
    failed: (error) => log.warn({ err: error }, 'another nats server could not be chosen'),
    isOutage: () => true,
  })
  await whenConnected(AbortSignal.any([closed.signal, AbortSignal.timeout(firstWaitMs)]))
  if (!isUp) log.warn('nats does not answer yet; events wait until it does')
  return {
    get connection() {
      if (!current) throw new Error('nats is not connected yet')
      return current
    },
    connected: () => isUp,
    whenConnected,
    onReconnect(listener) {
      events.on('again', listener)
      return () => void events.off('again', listener)
    },
    subscribe(subject, handle, queue = '') {
      let unsubscribe = () => {}
      const subscribe = (connection: NatsConnection) => {
        const callback = (error: Error | null, message: Msg) => {
          if (!error) handle(message)
        }
        const subscription = connection.subscribe(subject, { queue, callback })
        unsubscribe = () => subscription.unsubscribe()
      }
      subscriptions.add(subscribe)
      if (current && !current.isClosed()) subscribe(current)
      return () => {
        subscriptions.delete(subscribe)
        unsubscribe()
      }
    },
    async close() {
      closed.abort()
      await memberLoop.stop()
      // The last messages may not have left yet.
      if (isUp)
        await Promise.race([current?.flush(), sleep(flushMs, undefined, { ref: false })]).catch(() => {})
      isUp = false
      await current?.close()
    },
  }
}

/** Separates user and password from the addresses, because the client expects them as options. */
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
