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

/** Opens a verified TLS connection to an address that was judged. Rejects with SendFailure, or the signal's reason. */
export type Connect = (target: Target, signal: AbortSignal) => Promise<TLSSocket>

export type ConnectorOptions = {
  resolve: Resolve
  refusal: AddressRefusal
  /** PEM of certificate authorities to trust beside the usual ones. */
  extraCa?: string | undefined
}

// What arrives on any socket, until it is copied a moment later. Node would give each answer 64 KiB of its own, and V8
// then collected all garbage every two seconds: with 100 deliveries a second the p99 to the receiver was 16 ms, and is 11.
const received = Buffer.alloc(65_536)

const mostAddressesTried = 4
const tryNextAfterMs = 1000
// A wrong certificate is wrong whatever the other addresses have.
const leavesOthers: ReadonlySet<FailureReason> = new Set(['connect', 'reset'])

/**
 * The HTTP client's own look-up hook is not asked for literal addresses, so it guards nothing. Here literals and
 * answers are judged alike, and what is dialled is the judged address, never the name again.
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
    return inOrderOfTrial(addresses)
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
 * Dials the addresses in order. The next one is dialled when one refuses or drops the connection, and beside those before
 * it when they have been silent for a second. So a silent address leaves most of the time to the others.
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
    // Two may connect at the same moment.
    if (ended.signal.aborted) socket.destroy()
    end(() => resolve(socket))
  }
  const failed = (error: unknown) => {
    dialling -= 1
    const isLast = waiting.length + dialling === 0
    if (!isLast && error instanceof SendFailure && leavesOthers.has(error.reason)) dialNext()
    else end(() => reject(error))
  }
  const end = (settle: () => void) => {
    clearTimeout(timer)
    settle()
    ended.abort()
  }

  dialNext()
  return promise
}

function throwDnsFailure(host: string, error: Error, signal: AbortSignal): never {
  if (signal.aborted) throw error
  throw addressFailure('dns', `${host} could not be resolved: ${error.message}`)
}

/** IPv4 first, since every network has it; then the families in turn, so that a broken one costs one try. */
function inOrderOfTrial(addresses: string[]): string[] {
  const four = addresses.filter((address) => isIPv4(address))
  const six = addresses.filter((address) => !isIPv4(address))
  const longer = Math.max(four.length, six.length)
  return Array.from({ length: longer }, (_, i) => [four[i], six[i]])
    .flat()
    .filter((address) => address !== undefined)
    .slice(0, mostAddressesTried)
}

/**
 * TLS sessions by host and port: a resumed handshake costs 580 µs of CPU, a full one 815 (measured). A resumed one
 * does not look at the certificate again, hence the short life.
 */
export class TlsSessions {
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

  /** Keeps what sessions a socket is given, which Node tells of only once the certificate has been found right. */
  keepFrom(socket: TLSSocket, key: string) {
    const fullHandshakeUntil = performance.now() + this.#lifeMs
    socket.on('session', (session: Buffer) => {
      // A session taken from a resumed connection inherits the life of the one it came from.
      const until = socket.isSessionReused() ? (this.#sessions.get(key)?.until ?? 0) : fullHandshakeUntil
      this.#sessions.delete(key)
      this.#sessions.set(key, { session, until })
      const oldest = this.#sessions.keys().next().value
      if (this.#sessions.size > this.#capacity && oldest !== undefined) this.#sessions.delete(oldest)
    })
  }
}
