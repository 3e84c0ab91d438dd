import type { Sql } from '@licensing/database/connect'
import { invalid } from '@licensing/grpc/errors'
import { implement } from '@licensing/grpc/server'
import type { Quota } from '@licensing/proto/closed-sets'
import { QuotaService } from '@licensing/proto/quota-service'
import { quotas } from '@licensing/proto/quotas'
import { setQuota } from './quota-queries.ts'

/** The RPC with which an operator changes the quotas that a service checks. */
export function quotaService(sql: Sql, served: readonly Quota[]) {
  return implement(QuotaService, {
    setQuota: async ({ accountId, quota: name, max }) => {
      const quota = served.find((each) => each === name)
      if (!quota) throw invalid('/quota', `must be one of ${served.join(', ')}`)
      const { ceiling } = quotas[quota]
      if (max < 0n || max > ceiling) throw invalid('/max', `must be a whole number from 0 to ${ceiling}`)
      await setQuota(sql, accountId, quota, Number(max))
      return {}
    },
  })
}
