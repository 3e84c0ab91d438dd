import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { EntitlementDefinitionSchema } from '@licensing/proto/catalog'
import type { EntitlementKind } from '@licensing/proto/closed-sets'

export interface DefinitionRow {
  id: string
  application_id: string
  key: string
  kind: EntitlementKind
  display_name: string
  default_value: string
  created_at: Date
}

/** Interface 2.1: the values of each kind, and the default. */
export const kinds = {
  feature: { default: 'false', pattern: /^(true|false)$/, form: 'must be "true" or "false"' },
  limit: {
    default: '0',
    pattern: /^(0|-?[1-9][0-9]{0,14})$/,
    form: 'must be an integer of at most 15 digits as a string, without plus sign, leading zero or fraction',
  },
} as const satisfies Record<EntitlementKind, { default: string; pattern: RegExp; form: string }>

/** The rule that a value of this kind breaks; undefined if it is valid. */
export function problemOfValue(kind: EntitlementKind, value: string): string | undefined {
  return kinds[kind].pattern.test(value) ? undefined : kinds[kind].form
}

/** The rule that an entitlement key breaks; undefined if it is valid. */
export function problemOfKey(key: string): string | undefined {
  return /^[a-z][a-z0-9_]{0,63}$/.test(key)
    ? undefined
    : 'must have 1 to 64 characters: lower-case letters, digits and underscores, the first a letter'
}

export function toDefinition(row: DefinitionRow): MessageInitShape<typeof EntitlementDefinitionSchema> {
  return {
    id: row.id,
    applicationId: row.application_id,
    key: row.key,
    kind: row.kind,
    displayName: row.display_name,
    default: row.default_value,
    createdAt: timestampFromDate(row.created_at),
  }
}
