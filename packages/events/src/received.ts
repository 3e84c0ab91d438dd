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
    payload: data,
    traceParent: headers?.get('traceparent') || undefined,
  }
}

/** What the log says of an event: which it is, whose, and the request that caused it, as far as it can be read. */
export function logFieldsOf(message: Message): Record<string, string> {
  const fields = { event_id: eventIdOf(message), ...causeOf(message) }
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== ''))
}

function causeOf({ data }: Message): Record<string, string> {
  try {
    const { accountId, requestId } = fromBinary(EventSchema, data)
    return { account_id: accountId, request_id: requestId }
  } catch {
    return {}
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
