import { getOption, hasOption, ScalarType } from '@bufbuild/protobuf'
import type { DescField, DescMessage, Message } from '@bufbuild/protobuf'
import { reflect } from '@bufbuild/protobuf/reflect'
import { FeatureSet_FieldPresence } from '@bufbuild/protobuf/wkt'
import { EventSchema } from '../gen/events/v1/events_pb.ts'
import type { Event } from '../gen/events/v1/events_pb.ts'
import { webhook_type, webhook_when } from '../gen/events/v1/options_pb.ts'

type JsonValue = string | number | boolean | { [name: string]: JsonValue }

const payloads: { field: DescField; message: DescMessage; type: string }[] =
  EventSchema.oneofs[0]!.fields.filter(
    (field) => field.message !== undefined && hasOption(field.message, webhook_type),
  ).map((field) => ({ field, message: field.message!, type: getOption(field.message!, webhook_type) }))

const byCase = new Map(payloads.map((payload) => [payload.field.localName, payload]))

/** Every type of webhook event, as events.proto declares them. */
export const webhookEventTypes: readonly string[] = payloads.map((payload) => payload.type)

/** The type of webhook event that a domain event becomes: `licenceSuspended` is `licence.suspended`. */
export function webhookTypeOf(payload: NonNullable<Event['payload']['case']>): string | undefined {
  return byCase.get(payload)?.type
}

/** A sentence for vendors about when each type of webhook event is sent. */
export const webhookOccasions: Readonly<Record<string, string>> = Object.fromEntries(
  payloads.map(({ type, message }) => [type, getOption(message, webhook_when)]),
)

/** The JSON type of a field of an event, with a question mark if the field may be absent. */
export type WebhookFieldKind = `${'string' | 'number' | 'boolean' | 'object'}${'' | '?'}`

/** The fields of each type of webhook event: the fields of `data.object`, and `previous` if the type has it. */
export const webhookFields: Readonly<Record<string, Record<string, WebhookFieldKind>>> = Object.fromEntries(
  payloads.map(({ type, message }) => [
    type,
    Object.fromEntries(message.fields.map((field) => [field.name, kindOf(field)])),
  ]),
)

/** A domain event's name on the wire of NATS: the payload's field name, such as `licence_suspended`. */
export function eventName(event: Event): string {
  const field = EventSchema.oneofs[0]!.fields.find((candidate) => candidate.localName === event.payload.case)
  if (!field) throw new Error(`event ${event.id} has no payload`)
  return field.name
}

/**
 * The content of a domain event's webhook: its type, `data.object` and `previous` (docs/guides/events.md, "Events"). Null for an event that
 * is internal to the system.
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

function kindOf(field: DescField): WebhookFieldKind {
  if (field.message) return 'object'
  const mayBeAbsent = field.presence === FeatureSet_FieldPresence.EXPLICIT ? '?' : ''
  if (field.scalar === ScalarType.STRING) return `string${mayBeAbsent}`
  return field.scalar === ScalarType.BOOL ? `boolean${mayBeAbsent}` : `number${mayBeAbsent}`
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
