import type { Sql } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import { quotas } from '@licensing/proto/quotas'
import type { RefusingQuota } from '@licensing/proto/quotas'
import { findQuota } from './quota-queries.ts'

/**
 * Refuses a resource that exceeds the quota. Call it in the transaction that created the resource, under a lock that every
 * such transaction takes first. Otherwise concurrent transactions could exceed the quota together.
 *
 * @param count number of resources, including the new one
 * @throws ServiceError `quota_exceeded`
 */
export async function checkQuota(
  sql: Sql,
  accountId: string,
  quota: RefusingQuota,
  count: number,
): Promise<void> {
  const max = await findQuota(sql, accountId, quota)
  if (count > max) throw quotaExceeded(quota, max)
}

/** The error if a quota is exceeded. */
export function quotaExceeded(quota: RefusingQuota, limit: number): ServiceError {
  const { noun, per, remedy } = quotas[quota]
  const owner = per.startsWith('application') ? 'an application of this account' : `this ${per}`
  return new ServiceError('quota_exceeded', `${owner} may have ${limit} ${noun}: ${remedy}`, {
    members: { limit },
  })
}
