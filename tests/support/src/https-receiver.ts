import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeCertificate } from '@licensing/local-servers/certificates'
import { hostAddress, hostName, type Caller } from './docker.ts'
import { eventually } from './poll.ts'
import { makeTemporaryFolder } from './temporary-folder.ts'

export interface ReceivedRequest {
  method: string
  path: string
  headers: IncomingHttpHeaders
  /** The exact bytes of the body. */
  body: Buffer
  /** When the whole body had arrived, in milliseconds since the epoch. */
  arrivedAt: number
}

/** The receiver's answer to a request. */
export type Answer =
  | {
      /** By default 200. */
      status?: number
      /** With a status of 3xx, `location` redirects. */
      headers?: Record<string, string>
      body?: string | Buffer
      /** A pause before the answer. */
      delayMs?: number
    }
  /** Reads the request and never answers. */
  | 'hang'
  /** Resets the connection without an answer. */
  | 'reset'

export interface HttpsReceiver extends AsyncDisposable {
  /** The URL of a path: `https://localhost:PORT`, or for containers `https://host.docker.internal:PORT`. */
  url(path?: string): string
  readonly port: number
  /** PEM file of the authority that signed the receiver's certificate: WEBHOOK_CA_FILE. */
  readonly caFile: string
  /** The received requests, in order of arrival. */
  readonly requests: ReceivedRequest[]
  /** The number of connections so far. */
  readonly connections: number
  /** Sets the answer for all requests from now on, or a function that returns the answer for each request. */
  answerWith(answer: Answer | ((request: ReceivedRequest, index: number) => Answer)): void
  /** Waits for at least `count` requests and returns all. Throws after `timeoutMs`, by default a minute. */
  received(count: number, timeoutMs?: number): Promise<ReceivedRequest[]>
  /** Closes open connections and refuses new ones until `resume`. */
  pause(): Promise<void>
  resume(): Promise<void>
}

/**
 * Starts a real HTTPS server on this machine that receives webhooks, with its own certificate.
 *
 * @param answer its answer until `answerWith` changes it; by default 200
 * @param caller the program that calls it; by default the stack of `startStack`
 * @example
 * await using receiver = await startHttpsReceiver({ status: 503 })
 */
export async function startHttpsReceiver(answer: Answer = {}, caller?: Caller): Promise<HttpsReceiver> {
  const address = await hostAddress(caller)
  const name = hostName(caller)
  const { caFile, certificate, key } = await (identity ??= makeIdentity())

  const requests: ReceivedRequest[] = []
  const sockets = new Set<Socket>()
  let connections = 0
  let choose: (request: ReceivedRequest, index: number) => Answer = () => answer

  const server = createServer({ cert: certificate, key, keepAliveTimeout: 60_000 }, (message, response) => {
    // In some tests the sender gives up while the receiver reads or answers, which is not an error.
    response.on('error', () => undefined)
    receive(message).then(
      (request) => respond(response, choose(request, requests.push(request) - 1)),
      () => undefined,
    )
  })
  server.on('connection', (socket: Socket) => {
    connections++
    sockets.add(socket.once('close', () => sockets.delete(socket)))
  })
  const listen = async (port: number) => void (await once(server.listen(port, address), 'listening'))
  const close = async () => {
    if (!server.listening) return
    const closed = once(server.close(), 'close')
    for (const socket of sockets) socket.destroy()
    await closed
  }
  await listen(0)
  const { port } = server.address() as AddressInfo

  return {
    url: (path = '/hook') => `https://${name}:${port}${path}`,
    port,
    caFile,
    requests,
    get connections() {
      return connections
    },
    answerWith: (next) => {
      choose = typeof next === 'function' ? next : () => next
    },
    received: (count, timeoutMs = 60_000) =>
      eventually(
        () => {
          if (requests.length >= count) return requests
          throw new Error(`${requests.length} of ${count} requests arrived`)
        },
        { timeoutMs, intervalMs: 5 },
      ),
    pause: close,
    resume: () => listen(port),
    [Symbol.asyncDispose]: close,
  }
}

// All receivers of a process share a certificate, so that a stack that trusts one receiver trusts all.
let identity: ReturnType<typeof makeIdentity> | undefined

async function makeIdentity() {
  const { authority, certificate, key } = await makeCertificate([
    'localhost',
    '127.0.0.1',
    'host.docker.internal',
  ])
  const folder = await makeTemporaryFolder()
  const caFile = join(folder.path, 'authority.pem')
  await writeFile(caFile, authority)
  return { caFile, certificate, key }
}

async function receive(message: IncomingMessage): Promise<ReceivedRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of message) chunks.push(chunk as Buffer)
  const { method = '', url: path = '', headers } = message
  return { method, path, headers, body: Buffer.concat(chunks), arrivedAt: Date.now() }
}

async function respond(response: ServerResponse, answer: Answer): Promise<void> {
  if (answer === 'hang') return
  if (answer === 'reset') {
    response.socket?.destroy()
    return
  }
  if (answer.delayMs !== undefined) await sleep(answer.delayMs)
  response.writeHead(answer.status ?? 200, answer.headers).end(answer.body ?? '')
}
