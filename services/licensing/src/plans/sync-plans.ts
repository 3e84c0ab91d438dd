import type { SyncPlansRequest } from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { applyPlanCopies } from './apply-plan-copies.ts'

export async function syncPlans(
  { outbox }: LicensingDependencies,
  { plans }: SyncPlansRequest,
): Promise<Record<string, never>> {
  await outbox.transaction((tx) => applyPlanCopies(tx, plans))
  return {}
}
