import type { TLSSocket } from 'node:tls'
import { Client } from 'undici'

const idleLifeMs = 45_000
const largestHeadBytes = 16_384

/**
 * One verified socket with an HTTP/1.1 client on it, used by one exchange at a time. The client can never connect
 * again by itself: another connection is another judgement of addresses.
 */
export class Connection {
  readonly origin: string
  readonly client: Client
  /** Exchanges it has served. */
  uses = 0
  onClose: (() => void) | null = null
  readonly #socket: TLSSocket
  readonly #reusableUntil: number

  constructor(origin: string, socket: TLSSocket, longestAgeMs: number) {
    this.origin = origin
    this.#socket = socket
    // Spread, so that connections made together do not all end together.
    this.#reusableUntil = performance.now() + longestAgeMs * (0.75 + Math.random() / 4)
    let handedOver = false
    this.client = new Client(origin, {
      connect: (_options, callback) => {
        if (handedOver) return callback(gone(), null)
        handedOver = true
        callback(null, socket)
      },
      allowH2: false,
      pipelining: 1,
      // A server's own Keep-Alive hint, when it is shorter, is followed by the client.
      keepAliveTimeout: idleLifeMs,
      keepAliveMaxTimeout: idleLifeMs,
      // The deadline of the whole attempt stands in for both.
      headersTimeout: 0,
      bodyTimeout: 0,
      maxHeaderSize: largestHeadBytes,
    })
    socket.once('close', () => this.onClose?.())
  }

  get isOpen() {
    return !this.#socket.destroyed && !this.client.destroyed
  }

  get isReusable() {
    return this.isOpen && performance.now() < this.#reusableUntil
  }

  destroy() {
    this.#socket.destroy()
    if (!this.client.destroyed) this.client.destroy(gone(), () => {})
  }
}

const gone = () => Object.assign(new Error('the connection is gone'), { code: 'ECONNRESET' })
