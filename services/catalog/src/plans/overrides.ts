import type { OverrideInput } from '@licensing/proto/catalog'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { problemOfValue } from '../entitlements/definition.ts'
import type { Violations } from '../refusals.ts'

export interface DefinedKey {
  id: string
  key: string
  kind: EntitlementKind
}

/** Finds the definition of each override; what does not fit is added to `violations`, by its place in the list. */
export function matchOverrides(
  inputs: OverrideInput[],
  definitions: DefinedKey[],
  violations: Violations,
): { definitionId: string; value: string }[] {
  const byKey = new Map(definitions.map((definition) => [definition.key, definition]))
  const seen = new Set<string>()
  const matched: { definitionId: string; value: string }[] = []
  inputs.forEach(({ key, value }, at) => {
    const definition = byKey.get(key)
    if (seen.has(key)) violations.add(`/entitlements/${at}/key`, 'is in the list twice')
    else if (!definition) violations.add(`/entitlements/${at}/key`, 'has no entitlement definition')
    seen.add(key)
    if (!definition) return
    const unfit = problemOfValue(definition.kind, value)
    if (unfit !== undefined) {
      violations.add(`/entitlements/${at}/value`, `${unfit}, as ${key} is a ${definition.kind}`)
    }
    matched.push({ definitionId: definition.id, value })
  })
  return matched
}

/** Whether a plan's overrides are these already. */
export function sameOverrides(
  held: [definitionId: string, value: string][],
  wanted: { definitionId: string; value: string }[],
): boolean {
  const values = new Map(held)
  return (
    held.length === wanted.length &&
    wanted.every(({ definitionId, value }) => values.get(definitionId) === value)
  )
}
