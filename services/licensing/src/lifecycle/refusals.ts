import { ServiceError } from '@licensing/grpc/errors'
import type { PlanStatus } from '@licensing/proto/closed-sets'
import type { LicenceRow } from './licence-row.ts'
import { allowedVerbs } from './licence.ts'

export function licenceNotFound({ licenceId }: { licenceId: string }): ServiceError {
  return new ServiceError('not_found', `there is no licence ${licenceId}`)
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

/** The refusal of a change that would make a licence active on a retired plan. `next`: what to do after the restore. */
export function planArchived({ id, plan_id: planId, status }: LicenceRow, next: string): ServiceError {
  return new ServiceError(
    'plan_archived',
    `plan ${planId} of licence ${id} is retired: restore plan ${planId} first, then ${next}`,
    { members: { current: status, allowed: allowedVerbs(status, 'retired') } },
  )
}
