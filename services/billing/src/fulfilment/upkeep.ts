import type { Loop } from '@licensing/process/loop'
import { closeParkedAlerts } from '../alerts/open-alert-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import { reachZeroCaps } from '../fees/reach-zero-caps.ts'
import { startRounds } from '../start-rounds.ts'
import { purgeHandled, unparkEvents } from './inbox-queries.ts'
import { adoptFormerSessions, claimFormerSales, landSales } from './sale-purchase-queries.ts'
import { timing } from './timing.ts'

const adoptedTogether = 200
const purgedTogether = 1_000

/** What is done now and then: rows that nothing needs any more, sales of earlier releases, caps of nothing. */
export function startUpkeep(deps: BillingDependencies): Loop {
  const { sql, outbox, log } = deps
  let isFirst = true
  return startRounds('upkeep', log, timing.upkeep, async () => {
    // A new release may understand what an earlier one parked.
    if (isFirst && (await unparkEvents(sql)) > 0) deps.wake('record')
    isFirst = false
    await closeParkedAlerts(sql)
    await reachZeroCaps(deps)
    const adopted = await adoptFormerSessions(sql, adoptedTogether)
    const sales = await outbox.transaction(async (tx) => {
      const former = await claimFormerSales(tx, adoptedTogether)
      if (former.length > 0) await landSales(tx, former, 0)
      return former.length
    })
    if (adopted > 0) deps.wake('decide')
    if (sales > 0) deps.wake('carry out')
    const kept = {
      events: timing.handledEventKept,
      facts: timing.unlinkedFactKept,
    }
    const purged = await purgeHandled(sql, kept, purgedTogether)
    return adopted + sales + purged > 0 ? timing.poll : timing.upkeep
  })
}
