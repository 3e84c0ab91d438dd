import type { DescMessage } from '@bufbuild/protobuf'
import type { FieldOf } from '@licensing/grpc/fields'
import type { z } from 'zod'
import type { BodyOf } from './messages.ts'
import { optional } from './text.ts'

/** A field that a vendor gives a resource. */
export interface Field<Value> {
  /** Its value in a request. */
  given: z.ZodType<Value | undefined>
  /** Its value in a change, if that has another form. */
  change?: z.ZodType<Value | undefined>
  shown: z.ZodType
  about: string
  /** Says what a resource without it has. Absent: each resource has it. */
  none?: string
}

type Shape<S extends DescMessage> = { [Name in FieldOf<S>]: z.ZodType<BodyOf<S>[Name & keyof BodyOf<S>]> }

/**
 * The fields of a message that a vendor gives a resource: each is listed, with a value of its type. The bodies that make and change
 * the resource, and its answers, follow from the list.
 */
export function fieldList<
  S extends DescMessage,
  F extends { [Name in FieldOf<S>]: Field<NonNullable<BodyOf<S>[Name & keyof BodyOf<S>]>> },
>(_message: S, fields: F) {
  const shapeOf = (schemaOf: (field: F[keyof F]) => z.ZodType): Shape<S> => {
    const schemas = Object.entries(fields).map(([name, field]) => [name, schemaOf(field as F[keyof F])])
    return Object.fromEntries(schemas) as Shape<S>
  }
  const described = (schema: z.ZodType, { about, none }: F[keyof F], without: 'Default' | 'null') =>
    schema.describe(none === undefined ? about : `${about} ${without}: ${none}.`)
  const orDefault = (field: F[keyof F], schema: z.ZodType) =>
    field.none === undefined ? schema : described(optional(schema), field, 'Default')

  return {
    /** The fields of a request that makes the resource, with the schema of each. */
    made: (schemaOf: (field: F[keyof F]) => z.ZodType = ({ given }) => given) =>
      shapeOf((field) => orDefault(field, schemaOf(field))),

    /** The fields of a change: all are optional, and null removes one. */
    changed: shapeOf((field) => {
      const { given, change, none } = field
      if (change !== undefined || none === undefined) return (change ?? given).optional()
      return described(given.nullable().optional(), field, 'null')
    }),

    /** The fields in answers. */
    shown: shapeOf((field) => described(field.shown, field, 'null')) as unknown as {
      [Name in keyof F]: F[Name]['shown']
    },
  }
}
