import { create } from '@bufbuild/protobuf'
import { newId } from '@licensing/database/ids'
import { connectTo } from '@licensing/grpc/client'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve } from '@licensing/grpc/server'
import type { Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'
import { CatalogService, PlanCopySchema } from '@licensing/proto/catalog'
import type { PlanCopy } from '@licensing/proto/catalog'
import { LicensingService } from '@licensing/proto/licensing'

export interface Fee {
  feeBps: number
  feeFixedMinor: bigint
}

/** Catalog by its contract, as far as billing and licensing ask it, over gRPC. */
export interface CatalogStandIn extends AsyncDisposable {
  readonly address: string
  readonly accounts: Map<string, Fee & { applicationIds: string[]; name?: string }>
  readonly plans: Map<string, PlanCopy>
}

export async function startCatalogStandIn(): Promise<CatalogStandIn> {
  const accounts: CatalogStandIn['accounts'] = new Map()
  const plans: CatalogStandIn['plans'] = new Map()
  const handlers: Partial<Handlers<typeof CatalogService>> = {
    async getAccount({ accountId }) {
      const account = accounts.get(accountId)
      if (!account) throw new ServiceError('not_found', 'no account')
      return {
        id: accountId,
        name: account.name ?? 'Vendor',
        feeBps: account.feeBps,
        feeFixedMinor: account.feeFixedMinor,
      }
    },
    async listApplications({ accountId, limit, beforeId }) {
      const ids = (accounts.get(accountId)?.applicationIds ?? []).toSorted().toReversed()
      const rest = ids.filter((id) => beforeId === '' || id < beforeId)
      return { applications: rest.slice(0, limit).map((id) => ({ id })), hasMore: rest.length > limit }
    },
    async getPlanCopy({ accountId, applicationId, planId }) {
      const plan = plans.get(planId)
      if (!plan || plan.accountId !== accountId || plan.applicationId !== applicationId) {
        throw new ServiceError('not_found', 'no plan')
      }
      return plan
    },
    async getCopyEpoch() {
      return { epoch: 0n }
    },
    async listPlanCopies({ afterId, limit }) {
      const later = [...plans.values()]
        .filter(({ id }) => id > afterId)
        .sort((a, b) => (a.id < b.id ? -1 : 1))
      return { plans: later.slice(0, limit), hasMore: later.length > limit }
    },
  }
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [implement(CatalogService, handlers as Handlers<typeof CatalogService>)],
    log: createLogger('catalog', 'silent'),
    health: new Health(),
  })
  return {
    address: `127.0.0.1:${server.port}`,
    accounts,
    plans,
    [Symbol.asyncDispose]: () => server.stop(),
  }
}

/** Changes a plan as catalog does: its own record, then licensing's copy. */
export async function changePlan(
  catalog: CatalogStandIn,
  licensingAddress: string,
  plan: PlanCopy,
): Promise<void> {
  catalog.plans.set(plan.id, plan)
  const licensing = connectTo(LicensingService, licensingAddress)
  try {
    if (plan.status === 'retired') await licensing.calls.archivePlan({ plan })
    else await licensing.calls.syncPlans({ plans: [plan] })
  } finally {
    licensing.close()
  }
}

export function newPlan(owner: { accountId: string; applicationId: string }): PlanCopy {
  return create(PlanCopySchema, { id: newId('pln'), ...owner, status: 'active', version: 1n })
}
