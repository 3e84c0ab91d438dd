import type { Change } from '@licensing/changes/change'
import type { Database } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { retrying } from '@licensing/database/transaction'
import { gather } from '@licensing/changes/gather'
import { deleteOldHosts, markSeen, recordCallHomes } from './call-home-queries.ts'
import type { CallHome } from './call-home-queries.ts'

/** Records calls. Calls that arrive together share one statement and one commit. */
export function callHomeRecorder(sql: Database, change: Change): (call: CallHome) => Promise<boolean> {
  const options = { mostTogether: 500, isTransient: isDatabaseUnavailable }
  const record = gather<CallHome, { isMarked: boolean; isThere: boolean }>(async (calls) => {
    const { unmarked, gone, withNewHosts } = await retrying(() => recordCallHomes(sql, calls))
    if (withNewHosts.length > 0) await retrying(() => deleteOldHosts(sql, withNewHosts))
    return calls.map((call) => ({
      isMarked: !unmarked.has(call.licenceId),
      isThere: !gone.has(call.activationId),
    }))
  }, options)
  // One transaction per licence: a licence that an archive has locked delays no others.
  const mark = gather<string, void>(
    async (licenceIds) => {
      await change((tx) => markSeen(tx, licenceIds))
      return licenceIds.map(() => undefined)
    },
    { ...options, queueOf: (licenceId) => licenceId },
  )
  return async (call) => {
    const { isMarked, isThere } = await record(call)
    if (!isMarked) await mark(call.licenceId)
    return isThere
  }
}
