import { LostRace } from '@licensing/changes/change'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { callContext } from '@licensing/grpc/call-context'
import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceVerb, PlanStatus } from '@licensing/proto/closed-sets'
import { LicenceSchema } from '@licensing/proto/licensing'
import type { LifecycleRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { changeLicences, findLicence, licenceToChange, lockPlanOf } from '../lifecycle/licence-queries.ts'
import type { FoundLicence, LicenceScope } from '../lifecycle/licence-queries.ts'
import { licenceMessage, licenceEvent } from '../lifecycle/licence-row.ts'
import type { LicenceRow } from '../lifecycle/licence-row.ts'
import { allowedVerbs, lifecycle, transitionOf } from '../lifecycle/licence.ts'
import type { Move } from '../lifecycle/licence.ts'

/**
 * A stored answer belongs to an account and its idempotency key. An API key that is bound to one application gets it only
 * if the licence belongs to that application.
 */
export async function requireVisible(
  { sql }: Pick<LicensingDependencies, 'sql'>,
  request: LifecycleRequest,
): Promise<void> {
  if (!callContext()?.idempotencyKey || request.onlyApplicationId === undefined) return
  if (!(await findLicence(sql, request))) throw licenceNotFound(request)
}

/** A verb of the vendor: locks the licence and changes it if its status allows that; otherwise throws a conflict. */
export async function changeLicence(
  { change }: LicensingDependencies,
  verb: LicenceVerb,
  request: LifecycleRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  const answer = { schema: LicenceSchema, of: licenceMessage }
  const row = await change((tx) => changeIn(tx, verb, request), { answer })
  return licenceMessage(row)
}

async function changeIn(tx: Transaction, verb: LicenceVerb, request: LifecycleRequest): Promise<LicenceRow> {
  const move: Move = lifecycle[verb][0]
  const scope: LicenceScope = request
  // Lock order: the plan before the licence.
  const plan = move.where && (await lockPlanOf(tx, scope))
  if (plan?.status === move.where?.plan) {
    const selection = licenceToChange(tx, scope, { from: move.from, planId: plan?.id })
    const [changed] = await changeLicences(tx, selection, move, { actor: request.actor })
    if (changed) {
      await append(tx, licenceEvent(move.emits, changed, changed.plan_id))
      return changed
    }
  }
  const found = await findLicence(tx, scope)
  if (!found) throw licenceNotFound(request)
  const transition = transitionOf(verb, found, { plan: found.plan_status })
  if (transition?.to === 'same') return found
  if (transition) throw new LostRace()
  throw move.from.includes(found.status) ? planArchived(found) : conflict(verb, found)
}

export function licenceNotFound({ licenceId }: { licenceId: string }): ServiceError {
  return new ServiceError('not_found', `there is no licence ${licenceId}`)
}

const onlyFrom: Record<LicenceVerb, string> = {
  suspend: 'only an active licence can be suspended',
  reactivate: 'only a suspended licence can be reactivated',
  revoke: 'a retired licence cannot be revoked',
  retire: 'it cannot be retired',
}

function conflict(verb: LicenceVerb, found: FoundLicence): ServiceError {
  return conflictOf(found, found.plan_status, onlyFrom[verb])
}

/** The refusal of a change that the licence's status does not allow. `rule` explains which status would allow it. */
export function conflictOf(found: LicenceRow, plan: PlanStatus, rule: string): ServiceError {
  const allowed = allowedVerbs(found.status, plan)
  const remedy =
    allowed.length > 0 ? `possible now: ${allowed.join(', ')}` : 'no change is possible: issue a new licence'
  return new ServiceError('conflict', `licence ${found.id} is ${found.status}; ${rule}; ${remedy}`, {
    members: { current: found.status, allowed },
  })
}

function planArchived(found: LicenceRow): ServiceError {
  return new ServiceError(
    'plan_archived',
    `plan ${found.plan_id} of licence ${found.id} is retired: restore plan ${found.plan_id} first, then reactivate`,
    { members: { current: found.status, allowed: allowedVerbs(found.status, 'retired') } },
  )
}
