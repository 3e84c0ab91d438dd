import { clearField, clone, getOption } from '@bufbuild/protobuf'
import type { DescMessage, Message, MessageShape } from '@bufbuild/protobuf'
import { shown_once } from '@licensing/proto/idempotency'

/** A copy of an answer without the fields that are shown once (proto/rpc/v1/idempotency.proto), also in messages in it. */
export function withoutSecrets<O extends DescMessage>(schema: O, answer: MessageShape<O>): MessageShape<O> {
  const copy = clone(schema, answer)
  clear(schema, copy)
  return copy
}

function clear(schema: DescMessage, message: Message): void {
  for (const field of schema.fields) {
    if (getOption(field, shown_once)) clearField(message, field)
    else if (field.message) {
      const value = (message as unknown as Record<string, unknown>)[field.localName]
      const inner = field.fieldKind === 'list' ? (value as Message[]) : value ? [value as Message] : []
      for (const each of inner) clear(field.message, each)
    }
  }
}
