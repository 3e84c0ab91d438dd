import { isDeepStrictEqual } from 'node:util'
import type { DescMessage, MessageShape } from '@bufbuild/protobuf'
import type { FieldMask } from '@bufbuild/protobuf/wkt'
import { invalid } from './errors.ts'
import { fieldsOf, rowOf } from './fields.ts'
import type { FieldOf, RowOf } from './fields.ts'

/** The rules of a field. Without them a resource need not have it, and its column has the value as it is given. */
export interface FieldRules<Row, Value> {
  isRequired?: true
  /** The problem of a value, with a pointer that leads from the field to it if the field is an object. */
  problem?(
    value: NonNullable<Value>,
    before: Partial<Row>,
  ): string | { pointer: string; problem: string } | undefined
  /** The columns for a value; null: the resource gets none. */
  columns?(value: Value, before: Partial<Row>): Partial<Row>
  /** The value in a history, in the form of the REST API. Default: the column with the name of the field. */
  shown?(row: Row): unknown
}

/** Takes an invalid value. */
type Report = (pointer: string, problem: string) => void

const refuse: Report = (pointer, problem) => {
  throw invalid(pointer, problem)
}

/**
 * The fields that a vendor gives a resource and can change, listed in a message: what a request sets, the columns to write, and
 * the differences for a history. The type `Row` has their columns. Each field has rules: one that is added to the message does
 * not compile without.
 */
export function givenFields<Row extends object, S extends DescMessage>(
  schema: S,
  rules: { [Field in FieldOf<S>]: FieldRules<Row, RowOf<S>[Field]> },
) {
  const names = fieldsOf(schema)
  const rulesOf = (name: FieldOf<S>): FieldRules<Row, unknown> => rules[name]

  function columnsOf(
    set: FieldOf<S>[],
    message: MessageShape<S> | undefined,
    before: Partial<Row>,
    report: Report,
  ): Partial<Row> {
    const values = (message ? rowOf(schema, message) : {}) as Partial<Record<FieldOf<S>, unknown>>
    const columns = {}
    for (const name of set) {
      const { isRequired, problem, columns: columnsFor } = rulesOf(name)
      const value = values[name] ?? null
      if (value === null && isRequired) report(`/${name}`, 'is required')
      const found = value === null ? undefined : problem?.(value, before)
      const wrong = typeof found === 'string' ? { pointer: '', problem: found } : found
      if (wrong) report(`/${name}${wrong.pointer}`, wrong.problem)
      else Object.assign(columns, columnsFor?.(value, before) ?? { [name]: value })
    }
    return columns
  }

  const none = columnsOf(names, undefined, {}, () => {}) as Row

  function changeOf(name: FieldOf<S>, before: Row, after: Row): { from: unknown; to: unknown } {
    const shown = rulesOf(name).shown ?? ((row: Row) => row[name as keyof Row])
    return { from: shown(before), to: shown(after) }
  }

  return {
    /** The columns of a resource without any of the fields. Required ones are null. */
    none,
    columns: Object.keys(none) as (keyof Row & string)[],
    changeOf,

    /** The columns of a resource that is made with these fields. By default an invalid value is `validation_failed`. */
    ofNew: (message: MessageShape<S> | undefined, report = refuse) =>
      columnsOf(names, message, {}, report) as Row,

    /**
     * The columns that a request changes. A field in the mask that the message does not have is removed. By default an invalid
     * value is `validation_failed`.
     */
    ofChange(
      before: Row,
      { fields, mask }: { fields?: MessageShape<S> | undefined; mask?: FieldMask | undefined },
      report = refuse,
    ): Partial<Row> {
      return columnsOf(
        names.filter((name) => mask?.paths.includes(name)),
        fields,
        before,
        report,
      )
    },

    /** The fields whose values differ, for a history. */
    differences(before: Row, after: Row): Record<string, { from: unknown; to: unknown }> {
      const changes = names.map((name) => [name, changeOf(name, before, after)] as const)
      return Object.fromEntries(changes.filter(([, { from, to }]) => !isDeepStrictEqual(from, to)))
    },
  }
}
