import { waitingForLocks } from '@licensing/changes/change'
import type { SyncPlansRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

export async function syncPlans(
  { change }: LicensingDependencies,
  { plans }: SyncPlansRequest,
): Promise<Record<string, never>> {
  await change((tx) => applyPlanCopies(tx, plans), waitingForLocks)
  return {}
}
