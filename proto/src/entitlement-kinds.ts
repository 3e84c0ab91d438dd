import type { EntitlementKind } from './closed-sets.ts'

/** The values of each kind, and the default (docs/guides/entitlements.md, "Define entitlements and plans"). */
export const entitlementKinds = {
  feature: { default: 'false', pattern: /^(true|false)$/, form: 'must be "true" or "false"' },
  limit: {
    default: '0',
    pattern: /^(0|-?[1-9][0-9]{0,14})$/,
    form: 'must be an integer of at most 15 digits as a string, without plus sign, leading zero or fraction',
  },
} as const satisfies Record<EntitlementKind, { default: string; pattern: RegExp; form: string }>

/** The rule that a value of this kind breaks; undefined if it is valid. */
export function problemOfValue(kind: EntitlementKind, value: string): string | undefined {
  const { pattern, form } = entitlementKinds[kind]
  return pattern.test(value) ? undefined : form
}
