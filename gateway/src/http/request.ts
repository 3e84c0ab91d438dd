import { ServiceError } from '@licensing/grpc/errors'
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'
import { randomUUID } from 'node:crypto'

export const sendJson = 'send Content-Type: application/json'

/** Stands for a body of another media type, which is not read. */
export const notJson = Symbol('not JSON')

/** Refuses a compressed body before it is read, because its real size is unknown. The body of a GET is never read. */
export function refuseEncoded({ headers, method }: IncomingMessage): void {
  const { 'content-encoding': encoding, 'content-length': length, 'transfer-encoding': transfer } = headers
  const hasBody = transfer !== undefined || (length !== undefined && length !== '0')
  if (encoding === undefined || !hasBody || method === 'GET' || method === 'HEAD') return
  if (/^[\s,]*(?:identity[\s,]*)*$/i.test(encoding)) return
  throw new ServiceError(
    'unsupported_media_type',
    `send the body without Content-Encoding: ${encoding.slice(0, 100)} is not supported`,
  )
}

/**
 * Parses a body as JSON.
 *
 * @param bytes the body as received; undefined if there was none
 * @param mayBeEmpty whether the route needs no body
 */
export function parseJson(bytes: unknown, mayBeEmpty: boolean): unknown {
  if (bytes === notJson) throw new ServiceError('unsupported_media_type', sendJson)
  if (!(bytes instanceof Buffer) || bytes.length === 0) {
    if (mayBeEmpty) return {}
    throw new ServiceError('bad_request', 'the body is empty; send JSON')
  }
  if (!isUtf8(bytes)) throw new ServiceError('bad_request', 'the body is not UTF-8')
  try {
    return JSON.parse(bytes.toString('utf8')) as unknown
  } catch (error) {
    const [place = ''] = / \(line \d+ column \d+\)$/.exec((error as SyntaxError).message) ?? []
    throw new ServiceError('bad_request', `the body is not JSON${place}`, { cause: error })
  }
}

/** Refuses requests that violate HTTP but that Node accepts. */
export function refuseMalformed(request: IncomingMessage): void {
  const { headers, httpVersion, rawHeaders } = request
  const hosts = countHosts(rawHeaders)
  if (hosts > 1 || (hosts === 0 && httpVersion === '1.1')) {
    throw new ServiceError('bad_request', 'send exactly one Host header')
  }
  const { expect } = headers
  if (expect !== undefined && expect.toLowerCase() !== '100-continue') {
    throw new ServiceError('bad_request', 'unsupported Expect header: only 100-continue is supported')
  }
}

/** Counts `Host` headers. Node's `headers` has only the first. */
function countHosts(rawHeaders: string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    if (rawHeaders[at]!.length === 4 && rawHeaders[at]!.toLowerCase() === 'host') count++
  }
  return count
}

/** The caller's `X-Request-Id` if it has 1 to 128 visible ASCII characters; otherwise a new id. */
export function requestIdOf(request: IncomingMessage): string {
  const given = request.headers['x-request-id']
  return typeof given === 'string' && /^[\x21-\x7e]{1,128}$/.test(given) ? given : randomUUID()
}
