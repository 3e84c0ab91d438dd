import type { Sql } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { retrying } from '@licensing/database/transaction'
import { gather } from '../gather.ts'
import { markSeen, recordCallHomes } from './call-home-queries.ts'
import type { CallHome } from './call-home-queries.ts'

/** Records calls; those that come together share one statement and one commit. */
export function callHomeRecorder(sql: Sql): (call: CallHome) => Promise<void> {
  const options = { mostTogether: 500, isTransient: isDatabaseUnavailable }
  const record = gather<CallHome, boolean>(async (calls) => {
    const unmarked = await retrying(() => recordCallHomes(sql, calls))
    return calls.map((call) => !unmarked.has(call.licenceId))
  }, options)
  const mark = gather<string, void>(async (licenceIds) => {
    await retrying(() => markSeen(sql, licenceIds))
    return licenceIds.map(() => undefined)
  }, options)
  return async (call) => {
    const marked = await record(call)
    if (!marked) await mark(call.licenceId)
  }
}
