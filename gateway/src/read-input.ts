import { ServiceError } from '@licensing/grpc/errors'
import { characters, textLimits } from '@licensing/proto/text'
import { isUtf8 } from 'node:buffer'
import { parseJson } from './http/request.ts'
import { validate } from './http/validate.ts'
import type { Call, Route } from './route.ts'
import { bodySchema, querySchema, takesIdempotencyKey } from './route.ts'

const { most: longestIdempotencyKey } = textLimits.reference

/** Puts body and query into the call, in the order of refusals: JSON, idempotency key, shape. */
export function readInput(route: Route, call: Call, query: unknown, bytes: unknown): void {
  if (route.rawBody) {
    if (!(bytes instanceof Buffer) || bytes.length === 0)
      throw new ServiceError('bad_request', 'the body is empty')
    call.sentBody = bytes
    call.query = validate(querySchema(route), query, 'query')
    return
  }
  if (route.method !== 'GET') call.sentBody = parseJson(bytes, route.bodyOptional)
  if (route.needsIdempotencyKey) idempotencyKeyOf(call)
  else if (takesIdempotencyKey(route)) checkIdempotencyKey(call)
  if (route.method !== 'GET') call.body = validate(bodySchema(route), call.sentBody, 'body')
  call.query = validate(querySchema(route), query, 'query')
}

/**
 * The key that came with a call. Node reads each byte of a header as a character, and keys that are short enough so are
 * known by that reading; a longer one counts by what it is in UTF-8.
 */
export function sentIdempotencyKey(call: Pick<Call, 'header'>): string | undefined {
  const read = call.header('idempotency-key')
  if (read === undefined || read.length <= longestIdempotencyKey) return read
  const bytes = Buffer.from(read, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : read
}

function checkIdempotencyKey(call: Call): void {
  const key = sentIdempotencyKey(call)
  if (key !== undefined && !isIdempotencyKey(key)) {
    throw new ServiceError(
      'bad_request',
      `the header Idempotency-Key must have 1 to ${longestIdempotencyKey} characters`,
    )
  }
}

function isIdempotencyKey(key: string): boolean {
  return key !== '' && characters(key) <= longestIdempotencyKey
}

/** @throws ServiceError `idempotency_key_required` */
export function idempotencyKeyOf(call: Pick<Call, 'header'>): string {
  const key = sentIdempotencyKey(call)
  if (key === undefined || !isIdempotencyKey(key)) {
    throw new ServiceError(
      'idempotency_key_required',
      `send the header Idempotency-Key, 1 to ${longestIdempotencyKey} characters`,
    )
  }
  return key
}
