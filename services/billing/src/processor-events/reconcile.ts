import { waitingForLocks } from '@licensing/changes/change'
import type { Loop } from '@licensing/process/loop'
import { alertOnce } from '../alerts/alert-vendor.ts'
import { closeAlerts } from '../alerts/open-alert-queries.ts'
import { accountsOf } from '../connections/connection-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import { timing } from '../fulfilment/timing.ts'
import { startRounds } from '../start-rounds.ts'
import { insertEvents } from '../fulfilment/record-queries.ts'
import { readMissed } from './missed-events.ts'
import { claimMerchant, recordReconciled, recordUnread } from './reconcile-queries.ts'
import type { DueMerchant } from './reconcile-queries.ts'

const kind = 'processor_events_missed'

/**
 * Compares the inbox with the processor's own list of events, merchant by merchant, at the start and from then on: what
 * was sent while nobody answered, or was lost on the way, is read from there.
 */
export function startReconciliation(deps: BillingDependencies, intervalMs: number): Loop {
  return startRounds('reconciliation', deps.log, Math.min(intervalMs, 5_000), async (signal) => {
    for (;;) {
      const due = await claimMerchant(deps.sql, intervalMs)
      if (!due || signal.aborted) return
      if (!due.wanted) continue
      await reconcile(deps, due).catch(async (error: unknown) => {
        deps.log.warn({ err: error, merchant: due.merchant }, 'events not compared, later again')
        await recordUnread(deps.sql, due.merchant)
      })
    }
  })
}

/**
 * Nothing counts as compared before the whole list has been read, and nothing of it is recorded before: what is decided
 * from a part of it may be wrong, and cannot be undone.
 */
export async function reconcile(
  deps: BillingDependencies,
  { merchant, reconciled_to: from }: DueMerchant,
): Promise<void> {
  const { sql, change, wake, log } = deps
  const started = new Date()
  const hasGap = started.getTime() - from.getTime() > timing.listed
  if (hasGap) await alertGap(deps, merchant, from)
  const since = new Date(from.getTime() - timing.listedLate)
  for (let isAll = false; !isAll;) {
    const missed = await readMissed(deps, merchant, since)
    await change((tx) => insertEvents(tx, missed.events), waitingForLocks)
    if (missed.events.length > 0) {
      log.info({ merchant, missed: missed.events.length }, 'read events that had not arrived')
      wake('record')
    }
    isAll = missed.isAll
  }
  await recordReconciled(sql, merchant, started)
  if (hasGap) await closeAlerts(sql, await accountsOf(sql, merchant), kind)
}

async function alertGap({ change }: BillingDependencies, merchant: string, from: Date): Promise<void> {
  await change(async (tx) =>
    alertOnce(tx, await accountsOf(tx, merchant), {
      kind,
      subject: 'Events of the payment processor may have been missed',
      text: `The events of ${merchant} could not be read since ${from.toISOString()}. The payment processor lists none that are older than 30 days: compare payments, refunds and chargebacks from then on with its records.`,
    }),
  )
}
