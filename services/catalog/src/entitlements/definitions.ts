import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { newId, isId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { EntitlementDefinitionSchema } from '@licensing/proto/catalog'
import type { CreateEntitlementDefinitionRequest } from '@licensing/proto/catalog'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { entitlementKinds, problemOfValue } from '@licensing/proto/entitlement-kinds'
import { checkQuota } from '@licensing/quotas/quota'
import { pageOf } from '@licensing/database/page'
import { changeApplication } from '../applications/applications.ts'
import type { CatalogDependencies, Handler } from '../dependencies.ts'
import { checkLicensingAvailable, incrementAllVersions, syncAllPlans } from '../plan-copies/plan-changes.ts'
import type { ChangeOfAll } from '../plan-copies/plan-changes.ts'
import { checkApplicationId, Violations, notFound, checkPage } from '../refusals.ts'
import {
  countDefinitions,
  insertDefinition,
  findDefinition,
  listDefinitionRows,
  updateDefinitionRow,
  deleteDefinitionRow,
} from './definition-queries.ts'
import { problemOfKey, toDefinition } from './definition.ts'
import type { DefinitionRow } from './definition.ts'
import { requireApplication } from '../applications/application-queries.ts'

// The answer is unfinished until licensing has every plan with the definition, so that licences issued after the
// answer have it.
const answer = {
  schema: EntitlementDefinitionSchema,
  toMessage: ({ row }: Saved) => toDefinition(row),
  isUnfinished: true,
}

interface Saved {
  row: DefinitionRow
  change: ChangeOfAll
}

const toChange = ({ id, key, kind, default_value: value }: DefinitionRow, deleted = false) => ({
  id,
  key,
  kind,
  default: value,
  deleted,
})

/** @param unfinishedAnswer the recorded answer, if an earlier call with the same idempotency key saved the definition */
export const createDefinition: Handler<'createEntitlementDefinition'> = async (
  deps,
  request,
  unfinishedAnswer,
) => {
  const saved = unfinishedAnswer ? undefined : await save(deps, request)
  await syncAllPlans(deps, request, saved?.change)
  return unfinishedAnswer ?? toDefinition(saved!.row)
}

async function save(deps: CatalogDependencies, request: CreateEntitlementDefinitionRequest): Promise<Saved> {
  const { accountId, applicationId, key } = request
  await checkLicensingAvailable(deps)
  const define = async (tx: Transaction) => {
    const inserted = await insertDefinition(tx, { id: newId('ent'), applicationId, key, ...checked(request) })
    await checkQuota(tx, accountId, 'entitlement_defs', await countDefinitions(tx, applicationId))
    await auditDefinition(tx, request, undefined, inserted)
    return {
      row: inserted,
      change: await incrementAllVersions(tx, request, { definition: toChange(inserted) }),
    }
  }
  return changeApplication(deps, request, define, { answer }).catch((error: unknown) => {
    throw refusal(brokenConstraint(error), request) ?? error
  })
}

function checked(request: CreateEntitlementDefinitionRequest): {
  kind: EntitlementKind
  displayName: string
  default: string
} {
  const violations = new Violations()
  const problem = problemOfKey(request.key)
  if (problem !== undefined) violations.add('/key', problem)
  const kind = isMember('entitlementKind', request.kind) ? request.kind : undefined
  if (!kind)
    violations.add('/kind', `must be ${closedSets.entitlementKind.map((name) => `"${name}"`).join(' or ')}`)
  if (request.displayName !== undefined) violations.checkName('/display_name', request.displayName)
  const invalidDefault = kind && request.default !== undefined && problemOfValue(kind, request.default)
  if (invalidDefault) violations.add('/default', `${invalidDefault}, as this is a ${kind}`)
  violations.throwIfAny()
  return {
    kind: kind!,
    displayName: request.displayName ?? request.key,
    default: request.default ?? entitlementKinds[kind!].default,
  }
}

function refusal(
  constraint: string | undefined,
  { key, kind }: CreateEntitlementDefinitionRequest,
): ServiceError | undefined {
  if (constraint === 'entitlement_definitions_key') {
    return new ServiceError(
      'already_exists',
      `the entitlement key ${key} is defined in this application already; use that definition, or choose another key`,
    )
  }
  if (constraint === 'entitlement_definitions_kind') {
    const former = closedSets.entitlementKind.filter((name) => name !== kind).join(' or ')
    return new ServiceError(
      'already_exists',
      `the entitlement key ${key} was a ${former} before it was deleted and keeps that kind; define it as a ${former}, or choose another key`,
    )
  }
  return undefined
}

export const getDefinition: Handler<'getEntitlementDefinition'> = async (
  { sql },
  { accountId, applicationId, entitlementDefId: id },
) => {
  checkApplicationId(applicationId)
  const row = isId('ent', id) ? await findDefinition(sql, accountId, applicationId, id) : undefined
  if (row) return toDefinition(row)
  await requireApplication(sql, accountId, applicationId)
  throw notFound('entitlement definition', id)
}

export const listDefinitions: Handler<'listEntitlementDefinitions'> = async ({ sql }, request) => {
  const { accountId, applicationId, limit } = request
  checkPage('ent', request)
  checkApplicationId(applicationId)
  const rows = await listDefinitionRows(sql, accountId, applicationId, request)
  if (rows.length === 0) await requireApplication(sql, accountId, applicationId)
  const { page, hasMore } = pageOf(rows, limit)
  return { definitions: page.map(toDefinition), hasMore }
}

/** Key and kind are permanent (docs/guides/entitlements.md, "Define entitlements and plans"). */
export const updateDefinition: Handler<'updateEntitlementDefinition'> = async (deps, request) => {
  const { accountId, applicationId, entitlementDefId: id, displayName } = request
  if (request.default !== undefined) await checkLicensingAvailable(deps)
  const { row, change } = await changeApplication(deps, request, async (tx) => {
    const found = isId('ent', id) ? await findDefinition(tx, accountId, applicationId, id) : undefined
    if (!found) throw notFound('entitlement definition', id)
    const value = request.default ?? found.default_value
    const violations = new Violations()
    if (displayName !== undefined) violations.checkName('/display_name', displayName)
    const invalidDefault = problemOfValue(found.kind, value)
    if (invalidDefault !== undefined)
      violations.add('/default', `${invalidDefault}, as this is a ${found.kind}`)
    violations.throwIfAny()
    const updated = await updateDefinitionRow(tx, id, {
      displayName: displayName ?? found.display_name,
      default: value,
    })
    await auditDefinition(tx, request, found, updated)
    const change =
      value === found.default_value
        ? undefined
        : await incrementAllVersions(tx, request, { definition: toChange(updated) })
    return { row: updated, change }
  })
  // Even if the default has not changed: an earlier call may have saved it without reaching licensing.
  if (request.default !== undefined) await syncAllPlans(deps, request, change)
  return toDefinition(row)
}

/** Issued licences keep their snapshot, so licensing does not change them (docs/guides/concepts.md, "Snapshots"). */
export const deleteDefinition: Handler<'deleteEntitlementDefinition'> = async (deps, request) => {
  const { accountId, applicationId, entitlementDefId: id } = request
  await checkLicensingAvailable(deps)
  const change = await changeApplication(deps, request, async (tx) => {
    const found = isId('ent', id) ? await findDefinition(tx, accountId, applicationId, id) : undefined
    if (!found || !(await deleteDefinitionRow(tx, applicationId, id)))
      throw notFound('entitlement definition', id)
    await auditDefinition(tx, request, found, undefined)
    return incrementAllVersions(tx, request, { definition: toChange(found, true) })
  })
  await syncAllPlans(deps, request, change)
  return {}
}

async function auditDefinition(
  tx: Transaction,
  { accountId, applicationId }: { accountId: string; applicationId: string },
  before: DefinitionRow | undefined,
  after: DefinitionRow | undefined,
): Promise<void> {
  const { id } = (after ?? before)!
  const changes = changesOf(
    EntitlementDefinitionSchema,
    before && toDefinition(before),
    after && toDefinition(after),
  )
  await audit(tx, { accountId, applicationId, resourceId: id, changes })
}
