import { createServer } from 'node:net'

/**
 * A TCP port of 127.0.0.1 that is free now. Somebody else may take it before the caller does: try again with
 * another one then.
 */
export async function freePort(): Promise<number> {
  const server = createServer()
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port)
        else reject(new Error('the system gave no port'))
      })
    })
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
