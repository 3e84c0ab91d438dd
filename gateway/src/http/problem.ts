import { ServiceError } from '@licensing/grpc/errors'
import { errorCatalogue } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import type { FastifyReply } from 'fastify'
import { sendJson } from './request.ts'

const retryAfterSeconds = '1'

/** Answers with an RFC 9457 problem. Every error of a request is sent here. */
export function sendProblem(reply: FastifyReply, error: ServiceError, requestId: string): FastifyReply {
  const { http } = errorCatalogue[error.code]
  if (error.code === 'unauthenticated') reply.header('www-authenticate', 'Bearer')
  if (error.code === 'rate_limited' && !reply.hasHeader('retry-after')) reply.header('retry-after', '60')
  if (error.code === 'unavailable') reply.header('retry-after', retryAfterSeconds)
  return reply
    .code(http)
    .header('content-type', 'application/problem+json; charset=utf-8')
    .header('cache-control', 'no-store')
    .send(JSON.stringify(problem(error, requestId)))
}

/** The body of a problem. */
export function problem(error: ServiceError, requestId: string): Record<string, unknown> {
  const { http, title } = errorCatalogue[error.code]
  return {
    type: `/errors/${error.code}`,
    title,
    status: http,
    code: error.code,
    detail: detailOf(error),
    request_id: requestId,
    ...error.members,
    ...(error.code === 'validation_failed' && { errors: error.errors }),
  }
}

function detailOf({ code, message, errors }: ServiceError): string {
  if (code === 'internal') return 'something failed on our side'
  const [first, ...more] = code === 'validation_failed' ? errors : []
  if (first === undefined) return message
  const others = more.length === 0 ? '' : ` (and ${more.length} more in \`errors\`)`
  return `${first.pointer || 'the body'}: ${first.message}${others}`
}

// Fastify's errors and their codes in the catalogue.
const frameworkCodes: Readonly<Record<string, { code: ErrorCode; detail: string }>> = {
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'unsupported_media_type',
    detail: sendJson,
  },
  FST_ERR_MAX_PARAM_LENGTH: { code: 'not_found', detail: 'there is no such resource' },
  FST_ERR_BAD_URL: { code: 'not_found', detail: 'the path is not valid percent-encoding' },
}

/** Converts a thrown value to a ServiceError. An unknown value becomes `internal`. */
export function asServiceError(thrown: unknown): ServiceError {
  if (thrown instanceof ServiceError) return thrown
  const { code = '', statusCode = 500 } = thrown as { code?: string; statusCode?: number }
  const known = frameworkCodes[code]
  if (known) return new ServiceError(known.code, known.detail, { cause: thrown })
  // Other errors that a request can cause, such as a body that ends too early.
  if (statusCode === 400)
    return new ServiceError('bad_request', 'the request could not be read', { cause: thrown })
  return new ServiceError('internal', 'something failed on our side', { cause: thrown })
}
