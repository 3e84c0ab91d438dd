import { waitingForLocks } from '@licensing/changes/change'
import { invalid } from '@licensing/grpc/errors'
import type { SyncPlanRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'
import { findSuspended } from './plan-queries.ts'

export async function archivePlan(
  { change }: LicensingDependencies,
  { plan }: SyncPlanRequest,
): Promise<{ suspendedLicences: bigint }> {
  if (!plan || plan.archiveVersion === 0n) throw invalid('/plan', 'an archived plan is needed')
  const suspendedLicences = await change(async (tx) => {
    await applyPlanCopies(tx, [plan])
    return findSuspended(tx, plan.id, plan.archiveVersion)
  }, waitingForLocks)
  return { suspendedLicences }
}
