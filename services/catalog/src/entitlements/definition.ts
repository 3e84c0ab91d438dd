import { messageOf } from '@licensing/grpc/fields'
import { EntitlementDefinitionSchema } from '@licensing/proto/catalog'
import type { EntitlementDefinition } from '@licensing/proto/catalog'
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

/** The rule that an entitlement key breaks; undefined if it is valid. */
export function problemOfKey(key: string): string | undefined {
  return /^[a-z][a-z0-9_]{0,63}$/.test(key)
    ? undefined
    : 'must have 1 to 64 characters: lower-case letters, digits and underscores, the first a letter'
}

export function toDefinition(row: DefinitionRow): EntitlementDefinition {
  return messageOf(EntitlementDefinitionSchema, { ...row, default: row.default_value })
}
