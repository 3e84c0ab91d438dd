import { randomInt } from 'node:crypto'
import { createSocket, type Socket } from 'node:dgram'
import { createServer } from 'node:net'

// Below the range that systems use for outgoing connections. If a server used a port of that range, the port could be
// taken when the server restarts: a client that keeps connecting to it may even be connected to itself.
const [FIRST_PORT, LAST_PORT] = [15_000, 32_000]

// Ports are reserved by binding the UDP socket of the same number: every process that looks for a port tries to bind that
// first. A process holds at most this many.
const MAX_RESERVED = 500
const reserved: Socket[] = []

/**
 * Returns a free TCP port of 127.0.0.1. No process gets the same port from this function until this process has ended or has
 * asked for 500 other ports, because a server may start late or be down for a moment. A program that does not use this
 * function may still take the port; then try another one.
 *
 * @param range the first port, and the port after the last
 * @throws if 100 attempts find no free port
 */
export async function freePort([first, end]: [number, number] = [FIRST_PORT, LAST_PORT]): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(first, end)
    const reservation = await reserve(port)
    if (reservation === undefined) continue
    if (await isPortFree(port)) {
      reserved.push(reservation)
      if (reserved.length > MAX_RESERVED) reserved.shift()?.close()
      return port
    }
    reservation.close()
  }
  throw new Error(`no free port of 127.0.0.1 between ${first} and ${end}`)
}

/** Binds the UDP socket of a port; undefined if another process holds it. */
async function reserve(port: number): Promise<Socket | undefined> {
  const socket = createSocket('udp4')
  return new Promise((resolve) => {
    socket.once('error', () => {
      socket.close()
      resolve(undefined)
    })
    socket.bind({ port, address: '127.0.0.1', exclusive: true }, () => resolve(socket.unref()))
  })
}

/** Whether nothing listens on this port of 127.0.0.1. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
