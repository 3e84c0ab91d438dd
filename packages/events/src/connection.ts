import { connect, Events } from 'nats'
import type { NatsConnection } from 'nats'
import type { Logger } from '@licensing/process/log'

/** A NATS connection that is kept for ever: it waits for the first server and reconnects by itself. */
export interface Nats {
  connection: NatsConnection
  /** Whether it is connected now. */
  connected(): boolean
  /** Resolves when connected. */
  whenConnected(signal: AbortSignal): Promise<void>
  close(): Promise<void>
}

/**
 * Connects to NATS. Resolves at once, also when no server answers yet: events then wait in the outbox.
 *
 * @param urls one or several, separated by commas: nats://host:4222; user and password of the first count for all
 */
export async function connectNats(urls: string, name: string, log: Logger): Promise<Nats> {
  const state = { connected: false, connection: undefined as NatsConnection | undefined, closed: false }
  const waiting = new Set<() => void>()
  const open = connect({
    ...serversOf(urls),
    name,
    waitOnFirstConnect: true,
    maxReconnectAttempts: -1,
    reconnectTimeWait: 250,
    reconnectJitter: 100,
    pingInterval: 10_000,
    maxPingOut: 2,
    ignoreClusterUpdates: false,
  })
  const up = () => {
    state.connected = true
    for (const resolve of waiting) resolve()
    waiting.clear()
  }
  void watch()
  const connection = await Promise.race([open, timeout(2_000).then(() => undefined)])

  async function watch(): Promise<void> {
    const nc = await open
    state.connection = nc
    if (state.closed) return nc.close()
    up()
    for await (const status of nc.status()) {
      if (status.type === Events.Disconnect) {
        state.connected = false
        log.warn('nats is away')
      } else if (status.type === Events.Reconnect) {
        log.info('nats is back')
        up()
      }
    }
  }

  if (!connection) log.warn('nats does not answer yet; events wait until it does')
  return {
    get connection() {
      if (!state.connection) throw new Error('nats is not connected yet')
      return state.connection
    },
    connected: () => state.connected && state.connection !== undefined,
    whenConnected: (signal) =>
      new Promise((resolve) => {
        if ((state.connected && state.connection) || signal.aborted) return resolve()
        waiting.add(resolve)
        signal.addEventListener('abort', () => resolve(), { once: true })
      }),
    async close() {
      state.closed = true
      await state.connection?.close()
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

function timeout(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
