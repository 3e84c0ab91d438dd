import type { DescField, DescMessage, Message, MessageShape } from '@bufbuild/protobuf'
import type { Timestamp } from '@bufbuild/protobuf/wkt'
import type { RequestOf } from '@licensing/grpc/client'
import type { FieldOf, Underscored } from '@licensing/grpc/fields'
import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { SetName } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { isoText } from './time.ts'

/** Changed fields in a history or log, by their names. */
export const changesSchema = z.record(z.string(), z.strictObject({ from: z.unknown(), to: z.unknown() }))

/** Properties of REST whose field has another name in the contract. */
const fieldNames = { app_id: 'application_id', reason: 'failure_reason' } as const
type FieldNames = typeof fieldNames

/** Each property is a field of the message, by its name in the contract or in `fieldNames`. */
type ShapeOf<S extends DescMessage, Shape> = {
  [Name in keyof Shape]: Name extends FieldOf<S>
    ? z.core.SomeType
    : Name extends keyof FieldNames
      ? FieldNames[Name] extends FieldOf<S>
        ? z.core.SomeType
        : never
      : never
}

/**
 * Makes the JSON of a message: the properties of the schema, with times in the form of the API, `null` for a nullable field that
 * is absent or an empty list, and without an optional one. A word that is not in the closed set of its schema is an error of the service.
 *
 * @example const planJson = renderer(PlanSchema, planSchema)
 */
export function renderer<S extends DescMessage, Shape extends z.core.$ZodLooseShape & ShapeOf<S, Shape>>(
  message: S,
  schema: z.ZodObject<Shape>,
): (from: MessageShape<S>) => z.output<z.ZodObject<Shape>> {
  const properties = Object.entries(schema.shape as Record<string, z.ZodType>).map(([name, property]) => {
    const field =
      message.fields.find((one) => one.name === name) ??
      message.fields.find((one) => one.name === fieldNames[name as keyof FieldNames])
    if (!field) throw new Error(`${message.typeName} has no field ${name}`)
    const isOptional = property instanceof z.ZodOptional
    return { name, localName: field.localName, isOptional, render: valueRenderer(field, property) }
  })
  return (from) => {
    const values = from as unknown as Record<string, unknown>
    const json: Record<string, unknown> = {}
    for (const { name, localName, isOptional, render } of properties) {
      const value = values[localName]
      if (!isOptional || !isEmpty(value)) json[name] = render(value)
    }
    return json as z.output<z.ZodObject<Shape>>
  }
}

const isEmpty = (value: unknown) => value === undefined || (Array.isArray(value) && value.length === 0)

function valueRenderer(field: DescField, schema: z.core.$ZodType): (value: unknown) => unknown {
  if (schema instanceof z.ZodOptional) return valueRenderer(field, schema.unwrap())
  if (schema instanceof z.ZodNullable) {
    const render = valueRenderer(field, schema.unwrap())
    return (value) => (isEmpty(value) ? null : render(value))
  }
  if (schema instanceof z.ZodArray) {
    const render = valueRenderer(field, schema.element)
    return (list) => (list as unknown[]).map(render)
  }
  if (schema instanceof z.ZodEnum) {
    const set = setOf(schema)
    return (word) => readMember(set, word as string)
  }
  if (schema instanceof z.ZodObject) {
    return renderer(field.message!, schema as z.ZodObject<never>) as (value: unknown) => unknown
  }
  if (field.message?.typeName === 'google.protobuf.Timestamp') {
    return (time) => isoText(time as Timestamp | undefined)
  }
  return (value) => (typeof value === 'bigint' ? Number(value) : value)
}

function setOf({ options }: z.ZodEnum): SetName {
  const sets = Object.keys(closedSets) as SetName[]
  return sets.find((name) => String(closedSets[name]) === String(options))!
}

type Fields<S extends DescMessage> = Exclude<RequestOf<S>, Message>

/** The properties of a body that are fields of a message, by their names in the contract. */
export type BodyOf<S extends DescMessage> = {
  [Name in keyof Fields<S> as Underscored<Name & string>]?: Fields<S>[Name] | null
}

/** The fields of a request from the properties of its body, and which of them the body has. `null` removes a field. */
export function fieldsFrom<S extends DescMessage>(
  message: S,
  body: BodyOf<S>,
): { fields: Fields<S>; mask: { paths: string[] } } {
  const values = body as Record<string, unknown>
  const fields = message.fields.map(({ name, localName }) => [localName, values[name] ?? undefined])
  const paths = message.fields.map(({ name }) => name).filter((name) => values[name] !== undefined)
  return { fields: Object.fromEntries(fields) as Fields<S>, mask: { paths } }
}
