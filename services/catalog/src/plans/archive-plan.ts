import type { MessageInitShape } from '@bufbuild/protobuf'
import type { ArchivePlanRequest, ArchivePlanResponseSchema } from '@licensing/proto/catalog'
import type { CatalogDeps } from '../dependencies.ts'
import { savedOnly } from '../plan-copies/push.ts'
import { changePlanStatus } from './change-plan-status.ts'
import { archiveMs } from './plan-queries.ts'
import { toPlan } from './plan.ts'

/** Interface 3.2: every active licence on the plan becomes suspended, in licensing's one transaction. */
export async function archivePlan(
  deps: CatalogDeps,
  request: ArchivePlanRequest,
): Promise<MessageInitShape<typeof ArchivePlanResponseSchema>> {
  return changePlanStatus(deps, 'archive', request, async (copy, plan) => {
    const { suspendedLicences } = await deps.licensing.calls
      .archivePlan({ plan: copy }, { timeoutMs: archiveMs })
      .catch((error: unknown) => {
        throw savedOnly(
          `plan ${plan.id} is retired; its licences are suspended as soon as the licensing service is back`,
          error,
        )
      })
    // There is no active licence on a retired plan.
    return { plan: toPlan(plan, 0n), suspendedLicences }
  })
}
