import { makeCertificate } from '@licensing/local-servers/certificates'
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer as createHttpsServer, type ServerOptions } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server, type Socket } from 'node:net'
import { createServer as createTlsServer, type TLSSocket } from 'node:tls'

export const certificate = await makeCertificate(['receiver.test', 'localhost', '127.0.0.1'])
const tlsOptions = { cert: certificate.certificate, key: certificate.key }

export type Receiver = AsyncDisposable & {
  port: number
  /** `https://receiver.test:PORT/hook`. */
  url: string
  /** TCP connections so far. */
  connections(): number
  /** Cuts all open connections. */
  cut(): void
}

interface Place {
  host?: string
  port?: number
}

async function listen(
  server: Server,
  { host = '127.0.0.1', port: wanted = 0 }: Place = {},
): Promise<Receiver> {
  const sockets = new Set<Socket>()
  let connections = 0
  server.on('connection', (socket: Socket) => {
    connections += 1
    sockets.add(socket)
    socket.on('error', () => {}).once('close', () => sockets.delete(socket))
  })
  server.on('secureConnection', (socket: TLSSocket) => socket.on('error', () => {}))
  server.on('tlsClientError', () => {})
  server.listen(wanted, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    port,
    url: `https://receiver.test:${port}/hook`,
    connections: () => connections,
    cut,
    [Symbol.asyncDispose]: async () => {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}

/** An HTTPS server of Node. */
export const startReceiver = (answer: RequestListener, options: ServerOptions & Place = {}) =>
  listen(createHttpsServer({ ...tlsOptions, keepAliveTimeout: 60_000, ...options }, answer), options)

/** A TLS server that passes each connection to `handle`. */
export const startTlsReceiver = (handle: (socket: TLSSocket) => void) =>
  listen(createTlsServer(tlsOptions, handle))

/** A TCP server that passes each connection to `handle`. */
export const startTcpReceiver = (handle: (socket: Socket) => void, place?: Place) =>
  listen(createTcpServer(handle), place)
