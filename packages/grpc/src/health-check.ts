import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import type { Int32Value, StringValue } from '@bufbuild/protobuf/wkt'
import { Int32ValueSchema, StringValueSchema } from '@bufbuild/protobuf/wkt'
import type { MethodDefinition } from '@grpc/grpc-js'

export const servingStatus = { SERVING: 1, NOT_SERVING: 2 } as const

export const healthService = 'grpc.health.v1.Health'

/**
 * The RPC Check of gRPC's standard health service: the request has the name of a service, the answer its status. Each
 * message has one field, so on the wire it equals one of these well-known types. The usual library loads a parser of .proto
 * files instead, which took a twelfth of a service's start time.
 */
export const healthCheck: MethodDefinition<StringValue, Int32Value> = {
  path: `/${healthService}/Check`,
  requestStream: false,
  responseStream: false,
  requestSerialize: (message) => Buffer.from(toBinary(StringValueSchema, message)),
  requestDeserialize: (bytes) => fromBinary(StringValueSchema, bytes),
  responseSerialize: (message) => Buffer.from(toBinary(Int32ValueSchema, message)),
  responseDeserialize: (bytes) => fromBinary(Int32ValueSchema, bytes),
}

/** Request for the status of the whole process. */
export const wholeProcess = create(StringValueSchema, { value: '' })

export function statusOf(isReady: boolean): Int32Value {
  return create(Int32ValueSchema, { value: isReady ? servingStatus.SERVING : servingStatus.NOT_SERVING })
}
