import { once } from 'node:events'
import { isIPv4, type OnReadOpts } from 'node:net'
import {
  connect,
  createSecureContext,
  getCACertificates,
  type ConnectionOptions,
  type TLSSocket,
} from 'node:tls'
import type { AddressRefusal } from './address.ts'
import {
  addressFailure,
  connectFailure,
  type FailureReason,
  handshakeFailure,
  SendFailure,
} from './failure.ts'
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

const maxAddressesTried = 4
const tryNextAfterMs = 1000
// After one of these failures the next address is tried, but not after other failures, such as a wrong certificate.
const triesNextAddress: ReadonlySet<FailureReason> = new Set(['connect', 'reset'])

/**
 * The HTTP client calls its look-up hook for names only, so the hook cannot protect against literal addresses. Here literal
 * and resolved addresses are checked alike, and the connection is made to the checked address, not to the name.
 */
export function createConnector({ resolve, refusal, extraCa }: ConnectorOptions): Connect {
  const sessions = new TlsSessions()
  const secureContext = createSecureContext(
    extraCa === undefined ? {} : { ca: [...getCACertificates('default'), extraCa] },
  )

  const refuse = (host: string, address: string) => {
    const refused = refusal(address)
    if (refused !== null) throw addressFailure('blocked', `${host} leads to ${address}, ${refused}`)
  }

  const addressesOf = async ({ host, isAddress }: Target, signal: AbortSignal) => {
    const addresses = isAddress
      ? [host]
      : await resolve(host, signal).catch((error: Error) => throwDnsFailure(host, error, signal))
    if (addresses.length === 0) throw addressFailure('dns', `${host} has no address`)
    for (const address of addresses) refuse(host, address)
    return inDialOrder(addresses)
  }

  const dial = async (address: string, target: Target, signal: AbortSignal) => {
    const sessionKey = `${target.host}:${target.port}`
    const options: ConnectionOptions & { onread: OnReadOpts } = {
      host: address,
      port: target.port,
      ...(target.isAddress ? {} : { servername: target.host }),
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
      refuse(target.host, socket.remoteAddress ?? '')
      await once(socket, 'secureConnect', { signal })
    } catch (error) {
      socket.destroy()
      if (error instanceof SendFailure || signal.aborted) throw error
      throw isConnected ? handshakeFailure(error as Error) : connectFailure(error as Error)
    }
    return socket
  }

  return async (target, signal) => {
    const addresses = await addressesOf(target, signal)
    if (addresses.length === 1) return dial(addresses[0]!, target, signal)
    return firstToConnect(addresses, (address, either) => dial(address, target, either), signal)
  }
}

/**
 * Connects to the addresses in order. The next one is tried when an address refuses or drops the connection, or in parallel
 * when the earlier ones have not answered for a second.
 */
function firstToConnect(
  addresses: string[],
  dial: (address: string, signal: AbortSignal) => Promise<TLSSocket>,
  signal: AbortSignal,
): Promise<TLSSocket> {
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>()
  const ended = new AbortController()
  const either = AbortSignal.any([signal, ended.signal])
  const waiting = [...addresses]
  let dialling = 0
  let timer: NodeJS.Timeout | undefined

  const dialNext = () => {
    clearTimeout(timer)
    const address = ended.signal.aborted ? undefined : waiting.shift()
    if (address === undefined) return
    if (waiting.length > 0) timer = setTimeout(dialNext, tryNextAfterMs)
    dialling += 1
    dial(address, either).then(connected, failed)
  }
  const connected = (socket: TLSSocket) => {
    // Two addresses may connect at the same moment.
    if (ended.signal.aborted) socket.destroy()
    end(() => resolve(socket))
  }
  const failed = (error: unknown) => {
    dialling -= 1
    const isLast = waiting.length + dialling === 0
    if (!isLast && error instanceof SendFailure && triesNextAddress.has(error.reason)) dialNext()
    else end(() => reject(error))
  }
  const end = (report: () => void) => {
    clearTimeout(timer)
    report()
    ended.abort()
  }

  dialNext()
  return promise
}

function throwDnsFailure(host: string, error: Error, signal: AbortSignal): never {
  if (signal.aborted) throw error
  throw addressFailure('dns', `${host} could not be resolved: ${error.message}`)
}

/** IPv4 first, since every network has it; then the families alternate, so that a broken family costs one try. */
function inDialOrder(addresses: string[]): string[] {
  const four = addresses.filter((address) => isIPv4(address))
  const six = addresses.filter((address) => !isIPv4(address))
  const longer = Math.max(four.length, six.length)
  return Array.from({ length: longer }, (_, i) => [four[i], six[i]])
    .flat()
    .filter((address) => address !== undefined)
    .slice(0, maxAddressesTried)
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
