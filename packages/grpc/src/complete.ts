import { create } from '@bufbuild/protobuf'
import type { DescMessage, MessageInitShape, MessageShape } from '@bufbuild/protobuf'

type FieldName<S extends DescMessage> = Exclude<keyof MessageShape<S>, '$typeName' | '$unknown'> &
  keyof MessageInitShape<S>

/** Every field of a message by name; one that is not set is undefined. */
export type Complete<S extends DescMessage> = {
  [Name in FieldName<S>]: MessageInitShape<S>[Name] | undefined
}

/**
 * A message of which every field is named: where its definition gains one, this does not compile until that is given too.
 *
 * @example complete(PlanSchema, { id: row.id, name: row.name, trialDays: row.trial_days ?? undefined })
 */
export function complete<S extends DescMessage>(schema: S, fields: Complete<S>): MessageShape<S> {
  return create(schema, fields as MessageInitShape<S>)
}
