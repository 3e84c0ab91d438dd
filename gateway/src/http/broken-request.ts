import { ServiceError } from '@licensing/grpc/errors'
import { randomUUID } from 'node:crypto'
import type { Socket } from 'node:net'
import { problem } from './problem.ts'

/** Answers what is not HTTP, or too slow or too large in its headers; nothing else can be told of such a request. */
export function answerBrokenRequest(error: NodeJS.ErrnoException, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const requestId = randomUUID()
  const body = JSON.stringify(
    problem(new ServiceError('bad_request', 'the request could not be read as HTTP'), requestId),
  )
  socket.end(
    [
      'HTTP/1.1 400 Bad Request',
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  )
}
