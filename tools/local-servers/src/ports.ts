import { randomInt } from 'node:crypto'
import { createSocket, type Socket } from 'node:dgram'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

// Below the range from which systems take the ports of outgoing connections. A listener's port out of that range
// can be gone when it restarts: a client that keeps dialling it may even be connected to itself.
const [FIRST_PORT, LAST_PORT] = [15_000, 32_000]

// Ports that were handed out: this process holds the UDP socket of the same number, which every other process that
// looks for a port tries to take first. So many at a time.
const MOST_RESERVED = 500
const reserved: Socket[] = []

/**
 * A TCP port of 127.0.0.1 that is free now, and that no process is given by this function until this one has ended or
 * asked for 500 others: a server can be a while in starting, or be down for a moment. Somebody else may take it all the
 * same: try again with another one then.
 *
 * @param range the first port, and the one after the last
 * @throws when 100 ports in a row are taken
 */
export async function freePort([first, end]: [number, number] = [FIRST_PORT, LAST_PORT]): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(first, end)
    const reservation = await reserve(port)
    if (reservation === undefined) continue
    if (await isPortFree(port)) {
      reserved.push(reservation)
      if (reserved.length > MOST_RESERVED) reserved.shift()?.close()
      return port
    }
    reservation.close()
  }
  throw new Error(`no free port of 127.0.0.1 between ${first} and ${end}`)
}

/** The UDP socket of a port, while this process holds it; undefined when another one does. */
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

/** True when nothing listens on this port of 127.0.0.1. */
export async function isPortFree(port: number): Promise<boolean> {
  const server = createServer()
  return new Promise((resolve) => {
    server.once('error', () => resolve(false))
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/**
 * Starts something on a port: the wanted one, or a free one.
 *
 * @param start answers undefined when the port is taken
 * @param patienceMs how long to wait for one that is taken, 5 s when absent; one that was ours a moment ago can stay so
 * @throws when the port stays taken
 */
export async function startOnPort<Started>(
  wanted: number | undefined,
  start: (port: number) => Promise<Started | undefined>,
  patienceMs = 5_000,
): Promise<{ port: number; started: Started }> {
  for (const until = Date.now() + patienceMs; ; await sleep(250)) {
    const isLast = Date.now() >= until
    const port = wanted ?? (await freePort())
    const started = await start(port)
    if (started !== undefined) return { port, started }
    if (isLast) throw new Error(`port ${wanted ?? ''} of 127.0.0.1 is still in use by another process`)
  }
}
