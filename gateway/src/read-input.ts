import { ServiceError } from '@licensing/grpc/errors'
import { characters, textLimits } from '@licensing/proto/text'
import { isUtf8 } from 'node:buffer'
import { parseJson } from './http/request.ts'
import { validate } from './http/validate.ts'
import type { Call, Route } from './route.ts'
import { bodySchema, querySchema, takesIdempotencyKey } from './route.ts'

const { max: maxIdempotencyKeyLength } = textLimits.reference

/** Reads body and query into the call. Checks them in the order of refusals: JSON, idempotency key, fields. */
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
 * The `Idempotency-Key` of a call. Node reads each byte of a header as one character, and a key that is short enough in this
 * form is used in this form. A longer key is decoded as UTF-8.
 */
export function sentIdempotencyKey(call: Pick<Call, 'header'>): string | undefined {
  const read = call.header('idempotency-key')
  if (read === undefined || read.length <= maxIdempotencyKeyLength) return read
  const bytes = Buffer.from(read, 'latin1')
  return isUtf8(bytes) ? bytes.toString('utf8') : read
}

function checkIdempotencyKey(call: Call): void {
  const key = sentIdempotencyKey(call)
  if (key !== undefined && !isIdempotencyKey(key)) {
    throw new ServiceError(
      'bad_request',
      `the header Idempotency-Key must have 1 to ${maxIdempotencyKeyLength} characters`,
    )
  }
}

function isIdempotencyKey(key: string): boolean {
  return key !== '' && characters(key) <= maxIdempotencyKeyLength
}

/** @throws ServiceError `idempotency_key_required` */
export function idempotencyKeyOf(call: Pick<Call, 'header'>): string {
  const key = sentIdempotencyKey(call)
  if (key === undefined || !isIdempotencyKey(key)) {
    throw new ServiceError(
      'idempotency_key_required',
      `send the header Idempotency-Key, 1 to ${maxIdempotencyKeyLength} characters`,
    )
  }
  return key
}
