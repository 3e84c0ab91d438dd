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
  /** The bytes of the body as they came. */
  body: Buffer
  /** Milliseconds since the epoch at which the whole body was there. */
  arrivedAt: number
}

/** What the receiver does with a request that has arrived. */
export type Answer =
  | {
      /** 200 when absent. */
      status?: number
      /** `location` with a status of 3xx redirects. */
      headers?: Record<string, string>
      body?: string | Buffer
      /** Waits before it answers. */
      delayMs?: number
    }
  /** Reads the request and never answers. */
  | 'hang'
  /** Cuts the connection without an answer. */
  | 'reset'
  /** Answers 200 at once, then one byte of the body each `dripMs`, without end. */
  | { dripMs: number }

export interface HttpsReceiver extends AsyncDisposable {
  /** `https://localhost:PORT` and this path, or for containers `https://host.docker.internal:PORT`. */
  url(path?: string): string
  readonly port: number
  /** PEM file of the authority that signed the receiver's certificate: WEBHOOK_CA_FILE. */
  readonly caFile: string
  /** What has arrived, in order of arrival. */
  readonly requests: ReceivedRequest[]
  /** Connections opened so far. */
  readonly connections: number
  /** From now on every request, or every one that the function is asked about, is answered so. */
  answerWith(answer: Answer | ((request: ReceivedRequest, index: number) => Answer)): void
  /** The requests, once there are at least `count` of them; throws when there are not within `timeoutMs` (a minute). */
  received(count: number, timeoutMs?: number): Promise<ReceivedRequest[]>
  /** Refuses connections until `resume`; what is open is cut. */
  pause(): Promise<void>
  resume(): Promise<void>
}

/**
 * A real HTTPS server on this machine for webhooks to arrive at, with a certificate made for it.
 *
 * @param answer what it answers until `answerWith` says otherwise; 200 when absent
 * @param caller who calls it, if not the stack of `startStack`
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
    // A sender that gives up while we read or answer is what some tests are about.
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

// All receivers of a process have the same certificate: a stack that trusts one of them trusts the others.
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
  if ('dripMs' in answer) {
    response.writeHead(200)
    while (!response.destroyed) {
      response.write('.')
      await sleep(answer.dripMs)
    }
    return
  }
  if (answer.delayMs !== undefined) await sleep(answer.delayMs)
  response.writeHead(answer.status ?? 200, answer.headers).end(answer.body ?? '')
}
