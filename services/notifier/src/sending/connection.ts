import { performance } from 'node:perf_hooks'
import type { TLSSocket } from 'node:tls'
import { Client } from 'undici'
import { mostHeaderKiB } from './failure.ts'
import type { Target } from './target.ts'

/** How old it may be when an exchange begins on it, and how long it is kept between two exchanges. */
export type ConnectionLimits = { longestAgeMs: number; idleLifeMs: number }

/**
 * One verified socket with an HTTP/1.1 client on it, used by one exchange at a time. The client can never connect
 * again by itself: another connection is another judgement of addresses.
 */
export class Connection {
  readonly target: Target
  readonly client: Client
  readonly #socket: TLSSocket
  readonly #reusableUntil: number

  constructor(target: Target, socket: TLSSocket, { longestAgeMs, idleLifeMs }: ConnectionLimits) {
    this.target = target
    this.#socket = socket
    // Spread, so that connections made together do not all end together.
    this.#reusableUntil = performance.now() + longestAgeMs * (0.75 + Math.random() / 4)
    let handedOver = false
    this.client = new Client(target.origin, {
      connect: (_options, callback) => {
        const isFirst = !handedOver
        handedOver = true
        // Not at once: the client does not notice an answer that comes while it asks.
        queueMicrotask(() => (isFirst ? callback(null, socket) : callback(gone(), null)))
      },
      allowH2: false,
      pipelining: 1,
      // A server's own Keep-Alive hint, when it is shorter, is followed by the client.
      keepAliveTimeout: idleLifeMs,
      keepAliveMaxTimeout: idleLifeMs,
      // The deadline of the whole attempt stands in for both.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: mostHeaderKiB * 1024,
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
    if (!this.client.destroyed) this.client.destroy(gone(), () => {})
  }
}

const gone = () => Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' })
