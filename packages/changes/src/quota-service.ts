import { lockQuota, setQuota } from '@licensing/quotas/quota-queries'
import { invalid } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import type { Quota } from '@licensing/proto/closed-sets'
import { QuotaService } from '@licensing/proto/quota-service'
import { quotas } from '@licensing/proto/quotas'
import { audit } from './audit.ts'
import type { Change } from './change.ts'

/** The RPC with which an operator changes the quotas that a service checks. */
export function quotaService(change: Change, served: readonly Quota[]) {
  return implement(QuotaService, {
    setQuota: async ({ accountId, quota: name, max }) => {
      const quota = served.find((each) => each === name)
      if (!quota) throw invalid('/quota', `must be one of ${served.join(', ')}`)
      const { ceiling } = quotas[quota]
      if (max < 0n || max > ceiling) throw invalid('/max', `must be a whole number from 0 to ${ceiling}`)
      const to = Number(max)
      await change(async (tx) => {
        const from = await lockQuota(tx, accountId, quota)
        await setQuota(tx, accountId, quota, to)
        const changes = from === to ? undefined : { [quota]: { from, to } }
        await audit(tx, { accountId, resourceId: accountId, changes })
      })
      return {}
    },
  })
}
