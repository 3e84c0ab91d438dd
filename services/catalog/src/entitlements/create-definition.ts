import type { MessageInitShape } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type {
  CreateEntitlementDefinitionRequest,
  EntitlementDefinitionSchema,
} from '@licensing/proto/catalog'
import { isMember } from '@licensing/proto/closed-sets'
import type { EntitlementKind } from '@licensing/proto/closed-sets'
import { changeApplication } from '../applications/change-application.ts'
import type { CatalogDeps } from '../dependencies.ts'
import { changeAllPlans, pushPlansOf } from '../plan-copies/change-all-plans.ts'
import { requireLicensing } from '../plan-copies/push.ts'
import { Violations } from '../refusals.ts'
import { countDefinitions, insertDefinition } from './definition-queries.ts'
import { kinds, problemOfKey, problemOfValue, toDefinition } from './definition.ts'

// A plan's copy travels as one message, which carries every definition.
const mostDefinitions = 2_000

export async function createDefinition(
  deps: CatalogDeps,
  request: CreateEntitlementDefinitionRequest,
): Promise<MessageInitShape<typeof EntitlementDefinitionSchema>> {
  const { accountId, applicationId, key } = request
  await requireLicensing(deps)
  const row = await changeApplication(deps, request, async (tx) => {
    const inserted = await insertDefinition(tx, { id: newId('ent'), applicationId, key, ...checked(request) })
    if ((await countDefinitions(tx, applicationId)) > mostDefinitions) {
      throw invalid('/key', `an application has at most ${mostDefinitions} definitions; delete one first`)
    }
    await changeAllPlans(tx, accountId, applicationId)
    return inserted
  }).catch((error: unknown) => {
    throw refusal(brokenConstraint(error), request) ?? error
  })
  await pushPlansOf(deps, applicationId)
  return toDefinition(row)
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
