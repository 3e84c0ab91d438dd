import { once } from 'node:events'
import { isIP, type LookupFunction, type OnReadOpts, type TcpNetConnectOpts } from 'node:net'
import {
  connect,
  createSecureContext,
  getCACertificates,
  type ConnectionOptions,
  type TLSSocket,
} from 'node:tls'
import type { AddressRefusal } from './address.ts'
import { addressFailure, connectFailure, handshakeFailure, SendFailure } from './failure.ts'
import type { Resolve } from './resolver.ts'
import type { Target } from './webhook-url.ts'

/** Opens a verified TLS connection to a checked address. Rejects with SendFailure, or with the signal's reason. */
export type Connect = (target: Target, signal: AbortSignal) => Promise<TLSSocket>

export type ConnectorOptions = {
  resolve: Resolve
  refusal: AddressRefusal
  /** PEM of certificate authorities to trust beside the usual ones. */
  extraCa?: string | undefined
}

// All sockets receive their bytes in one buffer, and the bytes are copied at once. Otherwise Node allocates 64 KiB for each
// response, and V8 collects all garbage every two seconds: with 100 deliveries a second the p99 latency was 16 ms instead of
// 11 (measured).
const received = Buffer.alloc(65_536)

// If a name has several addresses, Node tries them one after the other, IPv4 and IPv6 alternately, each for this time and the
// last one until the deadline.
const tryNextAfterMs = 1_000

// The types of `tls.connect` lack these options of `net.connect`.
type FamilyOptions = Pick<TcpNetConnectOpts, 'autoSelectFamily' | 'autoSelectFamilyAttemptTimeout'>

/**
 * Node calls its look-up hook for names only, so the hook cannot protect against literal addresses, which are checked
 * before. The hook answers with checked addresses only, and the address of the connection is checked again.
 */
export function createConnector({ resolve, refusal, extraCa }: ConnectorOptions): Connect {
  const sessions = new TlsSessions()
  const secureContext = createSecureContext(
    extraCa === undefined ? {} : { ca: [...getCACertificates('default'), extraCa] },
  )

  const check = (host: string, address: string) => {
    const refused = refusal(address)
    if (refused !== null) throw addressFailure('blocked', `${host} leads to ${address}, ${refused}`)
  }

  const addressesOf = async (host: string, signal: AbortSignal) => {
    const addresses = await resolve(host, signal).catch((error: Error) => {
      throw addressFailure('dns', `${host} could not be resolved: ${error.message}`)
    })
    if (addresses.length === 0) throw addressFailure('dns', `${host} has no address`)
    for (const address of addresses) check(host, address)
    return addresses.map((address) => ({ address, family: isIP(address) }))
  }

  return async ({ host, port, isAddress }, signal) => {
    if (isAddress) check(host, host)
    const lookup: LookupFunction = (name, _options, callback) => {
      addressesOf(name, signal).then(
        (addresses) => callback(null, addresses),
        (error: SendFailure) => callback(error, []),
      )
    }
    const sessionKey = `${host}:${port}`
    const options: ConnectionOptions & FamilyOptions & { onread: OnReadOpts } = {
      host,
      port,
      lookup,
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: tryNextAfterMs,
      ...(isAddress ? {} : { servername: host }),
      ALPNProtocols: ['http/1.1'],
      secureContext,
      session: sessions.get(sessionKey),
      onread: {
        buffer: received,
        callback: (bytes, buffer) => socket.push(Buffer.from(buffer.subarray(0, bytes))),
      },
    }
    const socket = connect(options)
    socket.setNoDelay(true)
    sessions.keepFrom(socket, sessionKey)
    let isConnected = false
    try {
      await once(socket, 'connect', { signal })
      isConnected = true
      check(host, socket.remoteAddress ?? '')
      await once(socket, 'secureConnect', { signal })
    } catch (error) {
      socket.on('error', () => {}).destroy()
      if (error instanceof SendFailure || signal.aborted) throw error
      throw isConnected ? handshakeFailure(error as Error) : connectFailure(error as Error)
    }
    return socket
  }
}

/**
 * TLS sessions by host and port: a resumed handshake costs 580 µs of CPU, a full one 815 (measured). A resumed handshake does
 * not verify the certificate again, so sessions are kept for ten minutes only.
 */
class TlsSessions {
  readonly #lifeMs: number
  readonly #capacity: number
  readonly #sessions = new Map<string, { session: Buffer; until: number }>()

  constructor({ lifeMs = 600_000, capacity = 2000 } = {}) {
    this.#lifeMs = lifeMs
    this.#capacity = capacity
  }

  get(key: string): Buffer | undefined {
    const known = this.#sessions.get(key)
    return known !== undefined && performance.now() < known.until ? known.session : undefined
  }

  /** Stores the sessions of a socket. Node emits them only after the certificate was verified. */
  keepFrom(socket: TLSSocket, key: string) {
    const fullHandshakeUntil = performance.now() + this.#lifeMs
    socket.on('session', (session: Buffer) => {
      // A session from a resumed connection expires together with the session that was resumed.
      const until = socket.isSessionReused() ? (this.#sessions.get(key)?.until ?? 0) : fullHandshakeUntil
      this.#sessions.delete(key)
      this.#sessions.set(key, { session, until })
      const oldest = this.#sessions.keys().next().value
      if (this.#sessions.size > this.#capacity && oldest !== undefined) this.#sessions.delete(oldest)
    })
  }
}
