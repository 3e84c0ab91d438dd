import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'

/** A proxy for PostgreSQL that can answer like a server that recovers after a crash. */
interface RecoveringPostgres extends AsyncDisposable {
  readonly port: number
  /** The number of refused connections so far. */
  readonly refused: number
  /** Refuses this many connections, or all until `recovered`. */
  recover(connections?: number): void
  recovered(): void
}

/**
 * Starts the proxy on 127.0.0.1. It passes everything on until `recover`.
 *
 * @param target `host:port` of the server
 */
export async function startRecoveringPostgres(target: string): Promise<RecoveringPostgres> {
  const { hostname, port: targetPort } = new URL(`tcp://${target}`)
  const open = new Set<Socket>()
  const state = { toRefuse: 0, refused: 0 }
  const keep = (socket: Socket) => {
    open.add(socket)
    socket.on('error', () => socket.destroy()).on('close', () => open.delete(socket))
  }
  const server = createServer((client) => {
    keep(client)
    if (state.toRefuse > 0) {
      state.toRefuse -= 1
      state.refused += 1
      client.once('data', () => client.end(startingUp))
      return
    }
    const upstream = connect(Number(targetPort), hostname)
    keep(upstream)
    client.pipe(upstream).pipe(client)
    client.on('close', () => upstream.destroy())
    upstream.on('close', () => client.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    get refused() {
      return state.refused
    },
    recover: (connections = Number.POSITIVE_INFINITY) => {
      state.toRefuse = connections
    },
    recovered: () => {
      state.toRefuse = 0
    },
    [Symbol.asyncDispose]: async () => {
      const closed = once(server, 'close')
      server.close()
      for (const socket of open) socket.destroy()
      await closed
    },
  }
}

/** https://www.postgresql.org/docs/current/protocol-message-formats.html: ErrorResponse */
const startingUp = errorResponse({
  S: 'FATAL',
  V: 'FATAL',
  C: '57P03',
  M: 'the database system is starting up',
})

function errorResponse(fields: Record<string, string>): Buffer {
  const body = Buffer.from(
    `${Object.entries(fields)
      .map(([name, value]) => `${name}${value}\0`)
      .join('')}\0`,
  )
  const head = Buffer.alloc(5)
  head.write('E')
  head.writeUInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}
