import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { applyPlanCopies } from './apply-plan-copies.ts'
import { awaitPlans } from './awaited-plan-queries.ts'
import type { PlanVersion } from './awaited-plan-queries.ts'

/**
 * Consumes catalog's events: repairs what a push has missed, archives included. An event brings the copies, or says
 * which plans have a new version; those are asked of catalog where no push brings them.
 */
export async function consumePlanEvents(tx: Transaction, events: Pick<Received, 'event'>[]): Promise<void> {
  const changes = events.flatMap(({ event: { accountId, applicationId, payload } }) =>
    payload.case === 'planCopyChanged' ? [{ accountId, applicationId, ...payload.value }] : [],
  )
  await applyPlanCopies(
    tx,
    changes.flatMap(({ plans }) => plans),
  )
  const latest = new Map<string, PlanVersion>()
  for (const { changed, accountId, applicationId } of changes) {
    for (const { planId, version } of changed) {
      const known = latest.get(planId)
      if (!known || known.version < version) latest.set(planId, { planId, version, accountId, applicationId })
    }
  }
  if (latest.size > 0) await awaitPlans(tx, [...latest.values()])
}
