import type { MessageInitShape } from '@bufbuild/protobuf'
import type { Transaction } from '@licensing/database/connect'
import { append } from '@licensing/events/outbox'
import { ServiceError } from '@licensing/grpc/errors'
import type { LicenceVerb } from '@licensing/proto/closed-sets'
import type { LicenceSchema, LifecycleRequest } from '@licensing/proto/licensing'
import type { LicensingDeps } from '../dependencies.ts'
import { findLicence, inScope, lockPlanOf, statusIn } from './licence-queries.ts'
import type { FoundLicence, LicenceScope } from './licence-queries.ts'
import { Moved, untilSettled } from './moved.ts'
import { licenceMessage } from './licence-row.ts'
import type { LicenceRow } from './licence-row.ts'
import { licenceEvent } from './licence-event.ts'
import { allowedVerbs, lifecycle, transitionOf } from './licence.ts'
import type { Move } from './licence.ts'
import { changeLicences } from './transition-queries.ts'

/** One of the vendor's verbs: takes the row's lock, changes it if its state allows, or says why not. */
export async function changeLicence(
  { outbox }: LicensingDeps,
  verb: LicenceVerb,
  request: LifecycleRequest,
): Promise<MessageInitShape<typeof LicenceSchema>> {
  const row = await untilSettled(() => outbox.transaction((tx) => change(tx, verb, request)))
  return licenceMessage(row)
}

async function change(tx: Transaction, verb: LicenceVerb, request: LifecycleRequest): Promise<LicenceRow> {
  const move: Move = lifecycle[verb][0]
  const scope: LicenceScope = request
  // Lock order: the plan before the licence.
  const plan = move.where && (await lockPlanOf(tx, scope))
  if (plan?.status === move.where?.plan) {
    const selection = tx`
      select l.id, l.status, l.status_reason from licences l
      where ${inScope(tx, scope)} and ${statusIn(tx, move.from)}
        ${plan ? tx`and l.plan_id = ${plan.id}` : tx``}
      for update`
    const [changed] = await changeLicences(tx, selection, move, { actor: request.actor })
    if (changed) {
      await append(tx, licenceEvent(move.emits, changed, changed.plan_id))
      return changed
    }
  }
  const found = await findLicence(tx, scope)
  if (!found) throw new ServiceError('not_found', `there is no licence ${request.licenceId}`)
  const transition = transitionOf(verb, found, { plan: found.plan_status })
  if (transition?.to === 'same') return found
  if (transition) throw new Moved()
  throw move.from.includes(found.status) ? planArchived(found) : conflict(verb, found)
}

const onlyFrom: Record<LicenceVerb, string> = {
  suspend: 'only an active licence can be suspended',
  reactivate: 'only a suspended licence can be reactivated',
  revoke: 'a retired licence cannot be revoked',
  retire: 'it cannot be retired',
}

function conflict(verb: LicenceVerb, found: FoundLicence): ServiceError {
  const allowed = allowedVerbs(found.status, found.plan_status)
  const remedy =
    allowed.length > 0
      ? `what can be done with it now: ${allowed.join(', ')}`
      : 'nothing changes it any more: issue a new licence'
  return new ServiceError(
    'conflict',
    `licence ${found.id} is ${found.status}; ${onlyFrom[verb]}; ${remedy}`,
    { members: { current: found.status, allowed } },
  )
}

function planArchived(found: LicenceRow): ServiceError {
  return new ServiceError(
    'plan_archived',
    `plan ${found.plan_id} of licence ${found.id} is retired: restore plan ${found.plan_id} first, then reactivate`,
    { members: { current: found.status, allowed: allowedVerbs(found.status, 'retired') } },
  )
}
