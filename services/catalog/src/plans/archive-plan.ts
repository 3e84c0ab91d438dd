import type { MessageInitShape } from '@bufbuild/protobuf'
import { ArchivePlanResponseSchema } from '@licensing/proto/catalog'
import type { ArchivePlanRequest, ArchivePlanResponse } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { savedOnly } from '../plan-copies/push.ts'
import { changePlanStatus } from './change-plan-status.ts'
import type { Saved } from './change-plan-status.ts'
import { archiveMs } from './plan-queries.ts'
import { toPlan } from './plan.ts'

/** Interface 3.2: every active licence on the plan becomes suspended, in licensing's one transaction. */
export async function archivePlan(
  deps: CatalogDependencies,
  request: ArchivePlanRequest,
  begun?: ArchivePlanResponse,
): Promise<MessageInitShape<typeof ArchivePlanResponseSchema>> {
  const change = { verb: 'archive', request, isBegun: begun !== undefined, answer } as const
  return changePlanStatus(deps, change, async (copy, plan) => {
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

// Until licensing has counted them.
const answer = {
  schema: ArchivePlanResponseSchema,
  of: ({ plan }: Saved) => ({ plan: toPlan(plan, 0n), suspendedLicences: 0n }),
  isUnfinished: true,
}
