import type { Connection } from './connection.ts'

/**
 * Connections between two exchanges, apart for each endpoint: what the server of one endpoint slips into its
 * connection can never be taken for an answer to another. The latest used is taken first, so that the surplus of a
 * burst ages out; over `capacity` (50 kB each) the one that has been idle longest, whosever it is, is closed.
 */
export class IdleConnections {
  readonly #capacity: number
  readonly #ofEndpoint = new Map<string, Connection[]>()
  /** In the order in which they became idle. */
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
      this.forget(connection)
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

  /** Must be called for each connection that has closed, idle or not. */
  forget(connection: Connection) {
    const endpointId = this.#endpointOf.get(connection)
    if (endpointId === undefined) return
    this.#endpointOf.delete(connection)
    const connections = this.#ofEndpoint.get(endpointId)!
    if (connections.at(-1) === connection) connections.pop()
    else connections.splice(connections.indexOf(connection), 1)
    if (connections.length === 0) this.#ofEndpoint.delete(endpointId)
  }

  /** Closes those of one endpoint, or all. */
  close(endpointId?: string) {
    const closing = endpointId === undefined ? this.#endpointOf.keys() : this.#ofEndpoint.get(endpointId)
    for (const connection of Array.from(closing ?? [])) {
      this.forget(connection)
      connection.destroy()
    }
  }

  #closeLongestIdle() {
    const [connection] = this.#endpointOf.keys()
    if (connection === undefined) return
    this.forget(connection)
    connection.destroy()
  }
}
