import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { ServiceError } from '@licensing/grpc/errors'
import { EntitlementDefinitionSchema } from '@licensing/proto/catalog'
import type { CreateEntitlementDefinitionRequest, EntitlementDefinition } from '@licensing/proto/catalog'
import { isMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { checkQuota } from '@licensing/quotas/quota'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDependencies } from '../dependencies.ts'
import { changeAllPlans, pushPlansOf } from '../plan-copies/change-all-plans.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { Violations } from '../refusals.ts'
import { countDefinitions, insertDefinition } from './definition-queries.ts'
import { kinds, problemOfKey, problemOfValue, toDefinition } from './definition.ts'
import type { DefinitionRow } from './definition.ts'

// What is issued after the answer has the definition: licensing has every plan of it by then.
const answer = { schema: EntitlementDefinitionSchema, of: toDefinition, isUnfinished: true }

/** @param begun the answer of an earlier call with the same idempotency key, which saved the definition */
export async function createDefinition(
  deps: CatalogDependencies,
  request: CreateEntitlementDefinitionRequest,
  begun?: EntitlementDefinition,
): Promise<MessageInitShape<typeof EntitlementDefinitionSchema>> {
  const definition = begun ?? toDefinition(await save(deps, request))
  await pushPlansOf(deps, request.applicationId)
  return definition
}

async function save(
  deps: CatalogDependencies,
  request: CreateEntitlementDefinitionRequest,
): Promise<DefinitionRow> {
  const { accountId, applicationId, key } = request
  await requireLicensing(deps)
  const define = async (tx: Transaction) => {
    const inserted = await insertDefinition(tx, { id: newId('ent'), applicationId, key, ...checked(request) })
    await checkQuota(tx, accountId, 'entitlement_defs', await countDefinitions(tx, applicationId))
    await changeAllPlans(tx, { accountId, applicationId })
    return inserted
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
  if (!kind) violations.add('/kind', 'must be "feature" or "limit"')
  if (request.displayName !== undefined) violations.checkName('/display_name', request.displayName)
  const unfit = kind && request.default !== undefined && problemOfValue(kind, request.default)
  if (unfit) violations.add('/default', `${unfit}, as this is a ${kind}`)
  violations.throwIfAny()
  return {
    kind: kind!,
    displayName: request.displayName ?? request.key,
    default: request.default ?? kinds[kind!].default,
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
    const former = kind === 'feature' ? 'limit' : 'feature'
    return new ServiceError(
      'already_exists',
      `the entitlement key ${key} was a ${former} before it was deleted and keeps that kind; define it as a ${former}, or choose another key`,
    )
  }
  return undefined
}
