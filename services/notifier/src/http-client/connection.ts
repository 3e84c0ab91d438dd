import { performance } from 'node:perf_hooks'
import type { TLSSocket } from 'node:tls'
import { Client } from 'undici'
import { maxHeaderKiB } from './failure.ts'
import type { Target } from './webhook-url.ts'

/** How old a connection may be when an exchange starts, and how long it is kept between two exchanges. */
export type ConnectionLimits = { maxAgeMs: number; idleLifeMs: number }

/**
 * One verified socket with an HTTP/1.1 client, used by one exchange at a time. The client cannot connect again by itself,
 * because each connection needs a check of its address.
 */
export class Connection {
  readonly target: Target
  readonly client: Client
  readonly #socket: TLSSocket
  readonly #reusableUntil: number

  constructor(target: Target, socket: TLSSocket, { maxAgeMs, idleLifeMs }: ConnectionLimits) {
    this.target = target
    this.#socket = socket
    // Varied, so that connections that were made together do not end together.
    this.#reusableUntil = performance.now() + maxAgeMs * (0.75 + Math.random() / 4)
    let isConnected = false
    this.client = new Client(target.origin, {
      connect: (_options, callback) => {
        const isFirst = !isConnected
        isConnected = true
        // The callback is called in a microtask, because the client ignores it during its own call.
        queueMicrotask(() => (isFirst ? callback(null, socket) : callback(connectionLost(), null)))
      },
      allowH2: false,
      pipelining: 1,
      // A server's own Keep-Alive hint, when it is shorter, is followed by the client.
      keepAliveTimeout: idleLifeMs,
      keepAliveMaxTimeout: idleLifeMs,
      // The deadline of the whole attempt replaces both.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: maxHeaderKiB * 1024,
    })
  }

  get isReusable() {
    return !this.#socket.destroyed && !this.client.destroyed && performance.now() < this.#reusableUntil
  }

  onceClosed(listener: () => void) {
    this.#socket.once('close', listener)
  }

  destroy() {
    this.#socket.destroy()
    if (!this.client.destroyed) this.client.destroy(connectionLost(), () => {})
  }
}

const connectionLost = () => Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' })

/**
 * Idle connections, separate for each endpoint, so that bytes that one endpoint's server sends without a request never become
 * the response of another endpoint. The most recently used connection is taken first, so that connections of a burst become
 * too old. If there are more than `capacity` (50 kB each), the connection that has been idle longest is closed.
 */
export class IdleConnections {
  readonly #capacity: number
  readonly #ofEndpoint = new Map<string, Connection[]>()
  /** The connection that has been idle longest is first. */
  readonly #endpointOf = new Map<Connection, string>()

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get size() {
    return this.#endpointOf.size
  }

  take(endpointId: string, url: string): Connection | null {
    const connections = this.#ofEndpoint.get(endpointId)
    for (;;) {
      const connection = connections?.at(-1)
      if (connection === undefined) return null
      this.remove(connection)
      if (connection.target.url === url && connection.isReusable) return connection
      connection.destroy()
    }
  }

  put(endpointId: string, connection: Connection) {
    if (!connection.isReusable) return connection.destroy()
    const connections = this.#ofEndpoint.get(endpointId)
    if (connections === undefined) this.#ofEndpoint.set(endpointId, [connection])
    else connections.push(connection)
    this.#endpointOf.set(connection, endpointId)
    if (this.#endpointOf.size > this.#capacity) this.#closeLongestIdle()
  }

  /** Must be called for each closed connection, idle or not. */
  remove(connection: Connection) {
    const endpointId = this.#endpointOf.get(connection)
    if (endpointId === undefined) return
    this.#endpointOf.delete(connection)
    const connections = this.#ofEndpoint.get(endpointId)!
    if (connections.at(-1) === connection) connections.pop()
    else connections.splice(connections.indexOf(connection), 1)
    if (connections.length === 0) this.#ofEndpoint.delete(endpointId)
  }

  /** Closes the idle connections of one endpoint, or of all endpoints. */
  close(endpointId?: string) {
    const closing = endpointId === undefined ? this.#endpointOf.keys() : this.#ofEndpoint.get(endpointId)
    for (const connection of Array.from(closing ?? [])) {
      this.remove(connection)
      connection.destroy()
    }
  }

  #closeLongestIdle() {
    const [connection] = this.#endpointOf.keys()
    if (connection === undefined) return
    this.remove(connection)
    connection.destroy()
  }
}
