import { messageOf } from '@licensing/grpc/fields'
import { readMember } from '@licensing/proto/closed-sets'
import { OverrideSchema } from '@licensing/proto/licensing'
import type { Override } from '@licensing/proto/licensing'
import type { OverrideValue } from '../plans/effective.ts'

export interface OverrideRow extends OverrideValue {
  ends_on: Date | null
  note: string | null
  created_at: Date
}

/** An override that has not ended, as `currentOverrides` reads it. */
export interface CurrentOverride extends OverrideValue {
  ends_ms: number | null
}

export function overrideMessage(row: OverrideRow): Override {
  return messageOf(OverrideSchema, { ...row, kind: readMember('entitlementKind', row.kind) })
}

/** The fields that a vendor sets, in the form of REST, for the history. */
export function settingsOf(row: OverrideRow | undefined) {
  return row ? { value: row.value, ends_on: row.ends_on?.toISOString() ?? null, note: row.note } : null
}

export function hasEnded({ ends_on: end }: Pick<OverrideRow, 'ends_on'>, now: Date): boolean {
  return end !== null && end <= now
}
