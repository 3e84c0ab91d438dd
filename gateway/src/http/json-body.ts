import { ServiceError } from '@licensing/grpc/errors'
import { isUtf8 } from 'node:buffer'
import type { IncomingMessage } from 'node:http'

export const sendJson = 'send Content-Type: application/json'

/** Stands for a body of another media type, which nothing here reads. */
export const notJson = Symbol('not JSON')

/** Refuses a compressed body before it is read: its real size is not known. The body of a GET is never read. */
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
 * Parses a body as JSON. Where no body is asked for, an empty one is valid.
 *
 * @param bytes the body as it came, or undefined when there was none
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
    throw new ServiceError('bad_request', 'the body is not JSON', { cause: error })
  }
}
