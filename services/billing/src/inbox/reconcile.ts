import type { Loop } from '@licensing/process/loop'
import type { BillingDeps } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { insertEvent } from './inbox-queries.ts'
import { claimMerchant, recordReconciled } from './reconcile-queries.ts'
import type { DueMerchant } from './reconcile-queries.ts'

// Events may be listed a while after they were made.
const overlapMs = 60 * 60 * 1000

/**
 * Compares the inbox with the processor's own list of events, merchant by merchant, at the start and from then on: what
 * was sent while nobody answered, or was lost on the way, is taken in from there.
 */
export function startReconciliation(deps: BillingDeps, intervalMs: number): Loop {
  return startRounds('reconciliation', deps.log, Math.min(intervalMs, 5_000), async (signal) => {
    for (;;) {
      const due = await claimMerchant(deps.sql, intervalMs)
      if (!due || signal.aborted) return
      await reconcile(deps, due).catch((error: unknown) =>
        deps.log.warn({ err: error, merchant: due.merchant }, 'events not compared, later again'),
      )
    }
  })
}

export async function reconcile(
  { sql, processor, wakeInbox, log }: BillingDeps,
  { merchant, reconciled_to: from }: DueMerchant,
): Promise<void> {
  const started = new Date()
  let missed = 0
  for await (const event of processor.listEvents(merchant, new Date(from.getTime() - overlapMs))) {
    const { eventId, type, body } = event
    if (!processor.understands(type)) continue
    if (!(await insertEvent(sql, { processor: processor.name, eventId, merchant, type, body }))) continue
    missed += 1
    wakeInbox()
  }
  if (missed > 0) log.info({ merchant, missed }, 'took in events that had not arrived')
  await recordReconciled(sql, merchant, started)
}
