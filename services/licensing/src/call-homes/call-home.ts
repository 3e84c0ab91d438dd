import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { retrying } from '@licensing/database/transaction'
import { createBatcher } from '@licensing/changes/batcher'
import { deleteOldHosts, markSeen, recordCallHomes } from './call-home-queries.ts'
import type { CallHome } from './call-home-queries.ts'

export interface RecordedCall {
  /** Whether the activation still exists. */
  isThere: boolean
  /** Null if the call does not extend a lease, or if the lease has ended. */
  leaseEndsAt: Date | null
}

/** Records calls. Calls that arrive together share one statement and one commit. */
export function createRecordCallHome(
  sql: Database,
  change: Change,
): (call: CallHome) => Promise<RecordedCall> {
  const options = { maxBatchSize: 500, isTransient: isDatabaseUnavailable }
  const record = createBatcher<CallHome, RecordedCall & { isMarked: boolean }>(async (calls) => {
    const { unmarked, gone, leases, withNewHosts } = await retrying(() => recordCallHomes(sql, calls))
    if (withNewHosts.length > 0) await retrying(() => deleteOldHosts(sql, withNewHosts))
    return calls.map((call) => ({
      isMarked: !unmarked.has(call.licenceId),
      isThere: !gone.has(call.activationId),
      leaseEndsAt: leases.get(call.activationId) ?? null,
    }))
  }, options)
  // One transaction per licence, because an archive may have locked a licence for long.
  const mark = createBatcher<string, void>(
    async (licenceIds) => {
      await change((tx) => markSeen(tx, licenceIds))
      return licenceIds.map(() => undefined)
    },
    { ...options, queueOf: (licenceId) => licenceId },
  )
  return async (call) => {
    const { isMarked, ...recorded } = await record(call)
    if (!isMarked) await mark(call.licenceId)
    return recorded
  }
}
