import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { anyPack, anyUnpack } from '@bufbuild/protobuf/wkt'
import { status as Status, Metadata } from '@grpc/grpc-js'
import type { ServiceError as GrpcError } from '@grpc/grpc-js'
import { errorCatalogue, isErrorCode } from '@licensing/proto/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import { BadRequestSchema, ErrorInfoSchema, StatusSchema } from '@licensing/proto/rpc'

/** A field that breaks a rule: a JSON pointer into the request body, and the rule. */
export interface FieldError {
  pointer: string
  message: string
}

type Members = Record<string, string | string[] | number>

export interface ErrorExtras {
  /** For `validation_failed`: each field that breaks a rule. */
  errors?: FieldError[]
  /** Additional members of the answer, such as `current` and `allowed` of a conflict. */
  members?: Members
  /** The underlying error. It is logged, but never sent. */
  cause?: unknown
}

/**
 * The only error that handlers throw and clients receive. `detail` is public: it must not contain SQL, addresses or secrets.
 *
 * @example throw new ServiceError('not_found', `there is no plan ${id}`)
 */
export class ServiceError extends Error {
  override name = 'ServiceError'
  readonly code: ErrorCode
  readonly errors: FieldError[]
  readonly members: Members

  constructor(code: ErrorCode, detail: string, extras: ErrorExtras = {}) {
    super(detail, { cause: extras.cause })
    this.code = code
    this.errors = extras.errors ?? []
    this.members = extras.members ?? {}
  }
}

/** The error `validation_failed` for one field. */
export function invalid(pointer: string, message: string): ServiceError {
  return new ServiceError('validation_failed', message, { errors: [{ pointer, message }] })
}

const detailsKey = 'grpc-status-details-bin'
const domain = 'licensing'
// grpc-js puts details into HTTP/2 headers; over about 50 KB the stream breaks.
const maxErrorsSent = 100

/** The gRPC status of an error. The server has replaced any other error by an `internal` with fixed text. */
export function toWire(error: ServiceError): { code: number; details: string; metadata: Metadata } {
  const { grpc } = errorCatalogue[error.code]
  const metadata = Object.fromEntries(
    Object.entries(error.members).map(([name, value]) => [name, JSON.stringify(value)]),
  )
  const info = create(ErrorInfoSchema, { reason: error.code, domain, metadata })
  const fields = create(BadRequestSchema, {
    fieldViolations: error.errors
      .slice(0, maxErrorsSent)
      .map(({ pointer, message }) => ({ field: pointer, description: message })),
  })
  const details = [
    anyPack(ErrorInfoSchema, info),
    ...(error.errors.length > 0 ? [anyPack(BadRequestSchema, fields)] : []),
  ]
  const wire = new Metadata()
  wire.set(
    detailsKey,
    Buffer.from(
      toBinary(StatusSchema, create(StatusSchema, { code: grpc, message: error.message, details })),
    ),
  )
  return { code: grpc, details: error.message, metadata: wire }
}

/** The ServiceError in the answer to a failed call. If the answer has only a status, the ServiceError that fits it. */
export function fromWire(error: GrpcError): ServiceError {
  const packed = error.metadata?.get(detailsKey)[0]
  if (packed instanceof Buffer) {
    const { details } = fromBinary(StatusSchema, packed)
    const info = details
      .map((any) => anyUnpack(any, ErrorInfoSchema))
      .find((unpacked) => unpacked !== undefined)
    const fields = details
      .map((any) => anyUnpack(any, BadRequestSchema))
      .find((unpacked) => unpacked !== undefined)
    if (info && isErrorCode(info.reason)) {
      return new ServiceError(info.reason, error.details, {
        errors: (fields?.fieldViolations ?? []).map(({ field, description }) => ({
          pointer: field,
          message: description,
        })),
        members: Object.fromEntries(
          Object.entries(info.metadata).map(([name, json]) => [name, JSON.parse(json) as Members[string]]),
        ),
        cause: error,
      })
    }
  }
  return notAnswered(error)
}

/** The error of a call that the service itself did not answer. */
export function notAnswered(cause?: GrpcError): ServiceError {
  const code = !cause || isTransient(cause) ? 'unavailable' : 'internal'
  return new ServiceError(code, 'a dependency did not answer: try again', { cause })
}

/** Whether a call had no answer within its time. It may have taken effect. */
export function isTimeout(error: unknown): boolean {
  return (
    error instanceof ServiceError && (error.cause as Partial<GrpcError>)?.code === Status.DEADLINE_EXCEEDED
  )
}

const transient: ReadonlySet<number> = new Set([
  Status.UNAVAILABLE,
  Status.DEADLINE_EXCEEDED,
  Status.CANCELLED,
  Status.RESOURCE_EXHAUSTED,
])

// If a stream ended without a status, so that no service has answered, grpc-js reports INTERNAL with this text.
const brokenStream = /^Received RST_STREAM /

function isTransient({ code, details }: GrpcError): boolean {
  return transient.has(code) || (code === Status.INTERNAL && brokenStream.test(details))
}
