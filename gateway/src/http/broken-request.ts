import { ServiceError } from '@licensing/grpc/errors'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { ServerResponse } from 'node:http'
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { problem } from './problem.ts'

interface Connection {
  /** Answers that have not been sent completely. */
  readonly answers: Set<ServerResponse>
  latest: ServerResponse
}

// If the connection were closed at once, a caller that is still sending would lose the answer.
const lingerMs = 2_000

/** Answers input that Node rejects before it is a request: not HTTP, too slow or too large. */
export class BrokenRequests {
  readonly #connections = new WeakMap<Duplex, Connection>()
  readonly #ended = new WeakSet<Duplex>()

  watch(server: Server): void {
    server.prependListener('request', (request, response) => this.#track(request, response))
    // An Expect header other than 100-continue is refused later, like any malformed request.
    server.on('checkExpectation', (request, response) => server.emit('request', request, response))
    server.on('connect', (request, socket) => {
      void this.#completeAnswers(socket).then(() => {
        if (socket.writable) server.emit('request', request, lastResponse(request, socket))
      })
      // Node has removed its own listeners from the socket.
      socket.on('error', () => socket.destroy())
    })
    // A caller that has closed its side of the connection still waits for its answer.
    Object.assign(server, { httpAllowHalfOpen: true })
  }

  /**
   * Handles Node's `clientError`, which concerns an incomplete request. Complete requests that came before it on the same
   * connection are answered first.
   */
  async answer(error: NodeJS.ErrnoException, socket: Socket): Promise<void> {
    if (error.code === 'ECONNRESET' || !socket.writable) {
      socket.destroy()
      return
    }
    if (this.#ended.has(socket)) return
    this.#ended.add(socket)
    const connection = this.#connections.get(socket)
    await this.#completeAnswers(socket)
    if (!socket.writable) return
    const refused = connection && !connection.latest.req.complete && connection.latest.headersSent
    end(socket, refused ? '' : rawProblem(new ServiceError('bad_request', detailOf(error)), randomUUID()))
  }

  /** Waits until all complete requests are answered. */
  async #completeAnswers(socket: Duplex): Promise<void> {
    const answers = [...(this.#connections.get(socket)?.answers ?? [])]
    const pending = answers.filter((response) => response.req.complete || response.headersSent)
    await Promise.all(pending.map((response) => once(response, 'close')))
  }

  #track({ socket }: IncomingMessage, response: ServerResponse): void {
    const connection = this.#connections.get(socket) ?? { answers: new Set(), latest: response }
    connection.answers.add(response)
    connection.latest = response
    this.#connections.set(socket, connection)
    response.once('close', () => connection.answers.delete(response))
  }
}

/** Node gives the connection of a CONNECT request to its listener. With this response it gets an answer like any method. */
function lastResponse(request: IncomingMessage, socket: Duplex): ServerResponse {
  const response = new ServerResponse(request)
  response.shouldKeepAlive = false
  response.assignSocket(socket as Socket)
  response.once('finish', () => end(socket, ''))
  return response
}

function detailOf({ code }: NodeJS.ErrnoException): string {
  return code === 'ERR_HTTP_REQUEST_TIMEOUT'
    ? 'the request did not arrive in time'
    : 'the request could not be read as HTTP'
}

function end(socket: Duplex, bytes: string): void {
  socket.end(bytes)
  const linger = setTimeout(() => socket.destroy(), lingerMs)
  socket.once('close', () => clearTimeout(linger))
}

function rawProblem(error: ServiceError, requestId: string): string {
  const body = problem(error, requestId)
  const text = JSON.stringify(body)
  return [
    `HTTP/1.1 ${String(body['status'])} ${String(body['title'])}`,
    'Content-Type: application/problem+json; charset=utf-8',
    `Content-Length: ${Buffer.byteLength(text)}`,
    'Cache-Control: no-store',
    `X-Request-Id: ${requestId}`,
    'Connection: close',
    '',
    text,
  ].join('\r\n')
}
