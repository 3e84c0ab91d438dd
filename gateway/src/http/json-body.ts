import { ServiceError } from '@licensing/grpc/errors'
import { isUtf8 } from 'node:buffer'

export const sendJson = 'send Content-Type: application/json'

/** Stands for a body of another media type, which nothing here reads. */
export const notJson = Symbol('not JSON')

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
