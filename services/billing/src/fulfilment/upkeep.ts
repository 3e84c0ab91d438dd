import type { Loop } from '@licensing/process/loop'
import { closeParkedAlerts } from '../alerts/open-alert-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import { reachZeroCaps } from '../fees/reach-zero-caps.ts'
import { startRounds } from '../start-rounds.ts'
import { purgeHandled, unparkEvents } from './inbox-queries.ts'
import { timing } from './timing.ts'

const purgedTogether = 1_000

/** What is done now and then: rows that nothing needs any more, caps of nothing. */
export function startUpkeep(deps: BillingDependencies): Loop {
  const { sql, log } = deps
  let isFirst = true
  return startRounds('upkeep', log, timing.upkeep, async () => {
    // A new release may understand what an earlier one parked.
    if (isFirst && (await unparkEvents(sql)) > 0) deps.wake('record')
    isFirst = false
    await closeParkedAlerts(sql)
    await reachZeroCaps(deps)
    const kept = { events: timing.handledEventKept, facts: timing.unlinkedFactKept }
    const purged = await purgeHandled(sql, kept, purgedTogether)
    return purged > 0 ? timing.poll : timing.upkeep
  })
}
