import { fromBinary } from '@bufbuild/protobuf'
import { EventSchema } from '@licensing/proto/events'
import type { JsMsg } from 'nats'
import type { Received } from './consumer-options.ts'

/** Header with the event's id where JetStream must not know the message by it. */
export const eventIdHeader = 'Event-Id'

type Message = Pick<JsMsg, 'data' | 'headers'>

/** @throws Error where the payload is no event */
export function decode({ data, headers }: { data: Uint8Array; headers?: JsMsg['headers'] }): Received {
  return {
    event: fromBinary(EventSchema, data),
    traceParent: headers?.get('traceparent') || undefined,
  }
}

/** The event's id, from the headers alone where they have it; empty where nothing tells. */
export function eventIdOf({ data, headers }: Message): string {
  const named = headers?.get('Nats-Msg-Id') || headers?.get(eventIdHeader)
  if (named) return named
  try {
    return data.length > 0 ? fromBinary(EventSchema, data).id : ''
  } catch {
    return ''
  }
}
