import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** The direction of bytes: to the server, to the client, or both. */
export type Direction = 'to-server' | 'to-client' | 'both'

/**
 * A TCP proxy that injects faults. It never reorders or alters bytes. After bytes were lost, the connection is reset, as on a
 * network that loses its route for a while.
 */
export interface FaultyProxy extends AsyncDisposable {
  /** `host:port` of the proxy. */
  readonly address: string
  readonly port: number
  /** The number of open connections. */
  readonly open: number
  /** The number of accepted connections so far. */
  readonly accepted: number
  /** The number of lost bytes so far. */
  readonly swallowed: number
  /** Loses bytes that the sender's kernel considers delivered. `flow` resets the connections that lost some. */
  swallow(direction?: Direction): void
  /** Holds bytes, in order, until `flow`. */
  hold(direction?: Direction): void
  /** Delays every byte by this time, in order, until `flow`. */
  delay(ms: number, direction?: Direction): void
  /** Passes this many further bytes to the client on each open connection, then resets it, in the middle of a frame. */
  cutAfter(bytes: number): void
  /** Passes no further bytes on the connections that are open, and does not end them either. New connections work. */
  silence(): void
  /** Resets all open connections. New connections are accepted. */
  reset(): void
  /** Resets all open connections and refuses new connections until `flow`. */
  refuse(): void
  /** Ends all faults. */
  flow(): void
}

interface Pipe {
  direction: Exclude<Direction, 'both'>
  from: Socket
  to: Socket
  /** Bytes that wait, each with the time at which they may be passed on. */
  waiting: { bytes: Buffer; due: number }[]
  timer: NodeJS.Timeout | undefined
  ended: boolean
}

interface Connection {
  sockets: [Socket, Socket]
  pipes: [Pipe, Pipe]
  /** The connection has lost bytes, so it must be reset. */
  torn: boolean
  silent: boolean
  bytesLeft: number
}

const maxWaiting = 1024 * 1024

/**
 * Starts a proxy on 127.0.0.1 in front of a server.
 *
 * @param target `host:port` of the server, which need not run yet
 * @param port the port to listen on, by default a free port
 * @example
 * await using proxy = await startFaultyProxy('127.0.0.1:4222')
 * proxy.swallow('to-client'); …; proxy.flow()
 */
export async function startFaultyProxy(target: string, port = 0): Promise<FaultyProxy> {
  const { hostname, port: targetPort } = new URL(`tcp://${target}`)
  const connections = new Set<Connection>()
  const state = {
    accepted: 0,
    swallowed: 0,
    refusing: false,
    swallowing: new Set<Direction>(),
    holding: new Set<Direction>(),
    delayMs: new Map<Direction, number>(),
  }
  const applies = (set: { has(direction: Direction): boolean }, direction: Direction) =>
    set.has(direction) || set.has('both')

  const reset = (connection: Connection) => {
    if (!connections.delete(connection)) return
    for (const { timer } of connection.pipes) clearTimeout(timer)
    for (const socket of connection.sockets) socket.resetAndDestroy()
  }

  const forward = (connection: Connection, pipe: Pipe) => {
    clearTimeout(pipe.timer)
    if (!connections.has(connection) || applies(state.holding, pipe.direction)) return
    while (pipe.waiting.length > 0) {
      const [next] = pipe.waiting
      const early = next!.due - performance.now()
      if (early > 0) {
        pipe.timer = setTimeout(() => forward(connection, pipe), Math.ceil(early))
        return
      }
      pipe.waiting.shift()
      if (pipe.direction === 'to-client' && next!.bytes.length > connection.bytesLeft) {
        pipe.to.write(next!.bytes.subarray(0, connection.bytesLeft), () => reset(connection))
        return
      }
      connection.bytesLeft -= pipe.direction === 'to-client' ? next!.bytes.length : 0
      pipe.to.write(next!.bytes)
    }
    if (pipe.ended) pipe.to.end()
    else if (pipe.from.isPaused() && pipe.to.writableLength < maxWaiting) pipe.from.resume()
  }

  const read = (connection: Connection, pipe: Pipe) => {
    pipe.from.on('data', (bytes: Buffer) => {
      if (connection.silent || applies(state.swallowing, pipe.direction)) {
        connection.torn = true
        state.swallowed += bytes.length
        return
      }
      const delayMs = state.delayMs.get(pipe.direction) ?? state.delayMs.get('both') ?? 0
      pipe.waiting.push({ bytes, due: performance.now() + delayMs })
      forward(connection, pipe)
      const waiting = pipe.waiting.reduce((sum, { bytes: { length } }) => sum + length, 0)
      if (waiting + pipe.to.writableLength >= maxWaiting) pipe.from.pause()
    })
    pipe.to.on('drain', () => forward(connection, pipe))
    pipe.from.on('end', () => {
      pipe.ended = true
      if (!connection.silent) forward(connection, pipe)
    })
    pipe.from.on('error', () => reset(connection))
    pipe.from.on('close', () => {
      // Data that was sent before the end still arrives.
      if (connection.sockets.every(({ destroyed }) => destroyed)) reset(connection)
    })
  }

  const server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => {
    state.accepted += 1
    client.on('error', () => undefined)
    if (state.refusing) return void client.resetAndDestroy()
    const upstream = connect({ host: hostname, port: Number(targetPort), allowHalfOpen: true, noDelay: true })
    const pipe = (direction: Pipe['direction'], from: Socket, to: Socket): Pipe => ({
      direction,
      from,
      to,
      waiting: [],
      timer: undefined,
      ended: false,
    })
    const connection: Connection = {
      sockets: [client, upstream],
      pipes: [pipe('to-server', client, upstream), pipe('to-client', upstream, client)],
      torn: false,
      silent: false,
      bytesLeft: Number.POSITIVE_INFINITY,
    }
    connections.add(connection)
    for (const each of connection.pipes) read(connection, each)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const { port: listening } = server.address() as AddressInfo

  const resetAll = () => {
    for (const connection of connections) reset(connection)
  }
  return {
    address: `127.0.0.1:${listening}`,
    port: listening,
    get open() {
      return connections.size
    },
    get accepted() {
      return state.accepted
    },
    get swallowed() {
      return state.swallowed
    },
    swallow: (direction = 'both') => void state.swallowing.add(direction),
    hold: (direction = 'both') => void state.holding.add(direction),
    delay: (ms, direction = 'both') => void state.delayMs.set(direction, ms),
    cutAfter: (bytes) => {
      for (const connection of connections) connection.bytesLeft = bytes
    },
    silence: () => {
      for (const connection of connections) connection.silent = true
    },
    reset: resetAll,
    refuse: () => {
      state.refusing = true
      resetAll()
    },
    flow: () => {
      state.refusing = false
      state.swallowing.clear()
      state.holding.clear()
      state.delayMs.clear()
      for (const connection of connections) {
        if (connection.torn) reset(connection)
        else for (const each of connection.pipes) forward(connection, each)
      }
    },
    [Symbol.asyncDispose]: async () => {
      resetAll()
      const closed = once(server, 'close')
      server.close()
      await closed
    },
  }
}
