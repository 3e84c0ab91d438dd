import { getOption, hasOption } from '@bufbuild/protobuf'
import type { DescField, DescMessage, Message } from '@bufbuild/protobuf'
import { reflect } from '@bufbuild/protobuf/reflect'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../gen/events/v1/events_pb.ts'
import type { Event } from '../gen/events/v1/events_pb.ts'
import { webhook_type } from '../gen/events/v1/options_pb.ts'

type JsonValue = string | number | boolean | { [name: string]: JsonValue }

const payloads: { field: DescField; message: DescMessage; type: string }[] =
  EventSchema.oneofs[0]!.fields.filter(
    (field) => field.message !== undefined && hasOption(field.message, webhook_type),
  ).map((field) => ({ field, message: field.message!, type: getOption(field.message!, webhook_type) }))

const byCase = new Map(payloads.map((payload) => [payload.field.localName, payload]))

/** Every type of webhook event, as events.proto declares them. */
export const webhookEventTypes: readonly string[] = payloads.map((payload) => payload.type)

/** A domain event's name on the wire of NATS: the payload's field name, such as `licence_suspended`. */
export function eventName(event: Event): string {
  const field = EventSchema.oneofs[0]!.fields.find((candidate) => candidate.localName === event.payload.case)
  if (!field) throw new Error(`event ${event.id} has no payload`)
  return field.name
}

/**
 * What a domain event says to the vendor: its webhook type, `data.object` and `previous` (interface 6.1),
 * or null for an event that is internal to the system.
 */
export function toWebhook(event: Event): {
  type: string
  object: Record<string, JsonValue>
  previous: Record<string, JsonValue> | null
} | null {
  const payload = event.payload.case === undefined ? undefined : byCase.get(event.payload.case)
  if (!payload) return null
  const { previous, ...object } = plainObject(payload.message, event.payload.value as Message)
  return { type: payload.type, object, previous: (previous as Record<string, JsonValue> | undefined) ?? null }
}

function plainObject(schema: DescMessage, message: Message): Record<string, JsonValue> {
  const view = reflect(schema, message)
  const object: Record<string, JsonValue> = {}
  for (const field of schema.fields) {
    if (field.presence === FeatureSet_FieldPresence.EXPLICIT && !view.isSet(field)) continue
    if (field.message) {
      if (view.isSet(field)) {
        object[field.name] = plainObject(field.message, (view.get(field) as { message: Message }).message)
      }
    } else {
      const value: unknown = view.get(field)
      object[field.name] = typeof value === 'bigint' ? Number(value) : (value as JsonValue)
    }
  }
  return object
}
