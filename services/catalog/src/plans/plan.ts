import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { messageOf } from '@licensing/grpc/fields'
import { ServiceError } from '@licensing/grpc/errors'
import { PlanSchema } from '@licensing/proto/catalog'
import type { Plan, OverrideInput } from '@licensing/proto/catalog'
import { closedSets } from '@licensing/proto/closed-sets'
import type { PlanStatus, PlanVerb, EntitlementKind } from '@licensing/proto/closed-sets'
import { problemOfValue } from '@licensing/proto/entitlement-kinds'
import type { Metadata } from '@licensing/proto/metadata'
import type { Violations } from '../refusals.ts'

export interface PlanRow {
  id: string
  application_id: string
  name: string
  code: string
  status: PlanStatus
  status_version: bigint
  metadata: Metadata
  trial_days: number | null
  created_at: Date
  updated_at: Date
  /** Definition id and value, in the order of the definitions' keys. */
  overrides: [string, string][]
}

/** The status that each verb needs, and the status that it leads to (docs/guides/entitlements.md, "Retire a plan"). */
export const transitions = {
  archive: { from: 'active', to: 'retired' },
  restore: { from: 'retired', to: 'active' },
} as const satisfies Record<PlanVerb, { from: PlanStatus; to: PlanStatus }>

/** Verbs that would change a plan of this status. */
export function allowedVerbs(status: PlanStatus): PlanVerb[] {
  return closedSets.planVerb.filter((verb) => transitions[verb].from === status)
}

export function wrongStatus(verb: PlanVerb, plan: { id: string; status: PlanStatus }): ServiceError {
  const allowed = allowedVerbs(plan.status)
  return new ServiceError(
    'conflict',
    `plan ${plan.id} is ${plan.status}; only ${a(transitions[verb].from)} plan can be ${verb}d; ${allowed.join(' or ')} it first`,
    { members: { current: plan.status, allowed } },
  )
}

function a(status: PlanStatus): string {
  return status === 'active' ? 'an active' : 'a retired'
}

export function codeTaken(code: string): ServiceError {
  return new ServiceError(
    'already_exists',
    `the plan code ${code} is in use in this application; use that plan, or choose another code`,
  )
}

export function toPlan(row: PlanRow, activeLicences: bigint): Plan {
  const entitlements = row.overrides.map(([entitlementDefId, value]) => ({ entitlementDefId, value }))
  return messageOf(PlanSchema, { ...row, active_licences: activeLicences, entitlements })
}

/** Appends the entry of the audit log. The number of active licences follows from licences, so it is no change of the plan. */
export async function auditPlan(
  tx: Transaction,
  accountId: string,
  before: PlanRow | undefined,
  after: PlanRow,
): Promise<void> {
  const changes = changesOf(PlanSchema, before && toPlan(before, 0n), toPlan(after, 0n))
  await audit(tx, { accountId, applicationId: after.application_id, resourceId: after.id, changes })
}

export interface DefinedKey {
  id: string
  key: string
  kind: EntitlementKind
}

/** Finds the definition of each override. An invalid override is added to `violations`, with its index in the list. */
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
    else if (!definition)
      violations.add(`/entitlements/${at}/key`, 'has no entitlement definition: create the definition first')
    seen.add(key)
    if (!definition) return
    const invalid = problemOfValue(definition.kind, value)
    if (invalid !== undefined) {
      violations.add(`/entitlements/${at}/value`, `${invalid}, as ${key} is a ${definition.kind}`)
    }
    matched.push({ definitionId: definition.id, value })
  })
  return matched
}

/** Whether a plan has exactly these overrides. */
export function sameOverrides(
  current: [definitionId: string, value: string][],
  wanted: { definitionId: string; value: string }[],
): boolean {
  const values = new Map(current)
  return (
    current.length === wanted.length &&
    wanted.every(({ definitionId, value }) => values.get(definitionId) === value)
  )
}
