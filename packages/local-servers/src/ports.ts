import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

// Below the range from which systems take the ports of outgoing connections. A listener's port out of that range
// can be gone when it restarts: a client that keeps dialling it may even be connected to itself.
const [FIRST_PORT, LAST_PORT] = [15_000, 32_000]

/**
 * A TCP port of 127.0.0.1 that is free now. Somebody else may take it before the caller does: try again with
 * another one then.
 *
 * @throws when 100 ports in a row are taken
 */
export async function freePort(): Promise<number> {
  for (let attempt = 0; attempt < 100; attempt++) {
    const port = randomInt(FIRST_PORT, LAST_PORT)
    if (await isPortFree(port)) return port
  }
  throw new Error(`no free port of 127.0.0.1 between ${FIRST_PORT} and ${LAST_PORT}`)
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
 * Starts something on a port: the wanted one, waiting 5 s for it (one that was ours a moment ago can stay taken),
 * or a free one.
 *
 * @param start answers undefined when the port is taken
 * @throws when the port stays taken
 */
export async function startOnPort<Started>(
  wanted: number | undefined,
  start: (port: number) => Promise<Started | undefined>,
): Promise<{ port: number; started: Started }> {
  for (let attempt = 0; attempt < 20; attempt++) {
    const port = wanted ?? (await freePort())
    const started = await start(port)
    if (started !== undefined) return { port, started }
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`port ${wanted ?? ''} of 127.0.0.1 is still in use by another process`)
}
