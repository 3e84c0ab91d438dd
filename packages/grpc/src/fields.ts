import { create, isMessage } from '@bufbuild/protobuf'
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf'
import { timestampDate, timestampFromDate, TimestampSchema } from '@bufbuild/protobuf/wkt'
import type { Timestamp } from '@bufbuild/protobuf/wkt'

/** `expires_on` of `expiresOn`. */
export type Underscored<Name extends string> = Name extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${Underscored<Rest>}`
  : Name

type NameOf<Message> = Exclude<keyof Message, '$typeName' | '$unknown'>
type Present<Value, Shape> = NonNullable<Shape> extends Timestamp ? Date : NonNullable<Value>
type IfAbsent<Message, Name extends keyof Message> =
  Partial<Pick<Message, Name>> extends Pick<Message, Name> ? null : never

type Row<Message> = {
  [Name in NameOf<Message> as Underscored<Name & string>]-?:
    Present<Message[Name], Message[Name]> | IfAbsent<Message, Name>
}
type Given<Message, Init> = {
  [Name in NameOf<Message> & keyof Init as Underscored<Name & string>]-?:
    Present<Init[Name], Message[Name]> | IfAbsent<Message, Name>
}

/** The fields of a message as a row has them: by their names in the contract, times as dates, null if a field is absent. */
export type RowOf<S extends DescMessage> = Row<MessageShape<S>>

/** Like `RowOf`; a field that is a message may be given without its defaults. */
export type GivenRow<S extends DescMessage> = Given<MessageShape<S>, MessageInitShape<S>>

/** The names of a message's fields in the contract, which are those of columns and of the REST API. */
export type FieldOf<S extends DescMessage> = keyof RowOf<S> & string

/** The names of the fields, in the order of the contract. */
export function fieldsOf<S extends DescMessage>(schema: S): FieldOf<S>[] {
  return schema.fields.map((field) => field.name as FieldOf<S>)
}

/**
 * The message with the values of a row, which may have other columns too. If a field is added to the contract, callers do not
 * compile until the row has it.
 *
 * @example messageOf(PlanSchema, { ...row, active_licences: 3n, entitlements: [] })
 */
export function messageOf<S extends DescMessage>(schema: S, row: GivenRow<S>): MessageShape<S> {
  const values = row as Record<string, unknown>
  const fields = schema.fields.map(({ name, localName }) => {
    const value = values[name] ?? undefined
    return [localName, value instanceof Date ? timestampFromDate(value) : value]
  })
  return create(schema, Object.fromEntries(fields) as MessageInitShape<S>)
}

/** The values of a message as a row has them. */
export function rowOf<S extends DescMessage>(schema: S, message: MessageShape<S>): RowOf<S> {
  const values = message as unknown as Record<string, unknown>
  const fields = schema.fields.map(({ name, localName }) => {
    const value = values[localName] ?? null
    return [name, isMessage(value, TimestampSchema) ? timestampDate(value) : value]
  })
  return Object.fromEntries(fields) as RowOf<S>
}
