import { create } from '@bufbuild/protobuf'
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf'

type FieldName<S extends DescMessage> = Exclude<keyof MessageShape<S>, '$typeName' | '$unknown'> &
  keyof MessageInitShape<S>

/** Every field of a message by name; one that is not set is undefined. */
export type Complete<S extends DescMessage> = {
  [Name in FieldName<S>]: MessageInitShape<S>[Name] | undefined
}

/**
 * Creates a message and requires all of its fields. If a field is added to the contract, callers do not compile until they
 * give it too.
 *
 * @example complete(PlanSchema, { id: row.id, name: row.name, trialDays: row.trial_days ?? undefined })
 */
export function complete<S extends DescMessage>(schema: S, fields: Complete<S>): MessageShape<S> {
  return create(schema, fields as MessageInitShape<S>)
}
