import { longLockTimeout } from '@licensing/changes/change'
import { maxIdleMs } from '@licensing/process/loop'
import type { Loop } from '@licensing/process/loop'
import { alertOnce } from '../alerts/alert-vendor.ts'
import { closeAlerts } from '../alerts/open-alert-queries.ts'
import { accountsOf } from '../connected-accounts/connection-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import type { ListedEvent } from '../processor/processor.ts'
import { timing } from '../timing.ts'
import { startDatabaseLoop } from '@licensing/database/database-loop'
import { databaseTime } from '@licensing/database/time-queries'
import { insertEvents, findKnownEvents } from './inbox-queries.ts'
import type { NewInboxEvent } from './inbox-queries.ts'
import { claimMerchant, recordReconciled } from '../connected-accounts/reconciliation-queries.ts'
import type { DueMerchant } from '../connected-accounts/reconciliation-queries.ts'

const kind = 'processor_events_missed'

/**
 * Compares the inbox with the processor's own list of events, at the start and then regularly, merchant by merchant. It
 * adds events that were sent while the service was unavailable or were lost in transit.
 */
export function startReconciliation(deps: BillingDependencies, intervalMs: number): Loop {
  return startDatabaseLoop('reconciliation', deps.log, Math.min(intervalMs, maxIdleMs), async (signal) => {
    for (;;) {
      const due = await claimMerchant(deps.sql, intervalMs)
      if (!due || signal.aborted) return
      if (!due.wanted) continue
      await reconcile(deps, due).catch((error: unknown) =>
        deps.log.warn({ err: error, merchant: due.merchant }, 'events not compared: trying again later'),
      )
    }
  })
}

/**
 * The time of the comparison is written only after the whole list was read, and the events of a list are inserted
 * together: decisions from a part of them may be wrong and cannot be undone.
 */
export async function reconcile(
  deps: BillingDependencies,
  { merchant, reconciled_to: from }: DueMerchant,
): Promise<void> {
  const { sql, change, wake, log } = deps
  const started = await databaseTime(sql)
  const hasGap = started.getTime() - from.getTime() > timing.listed
  if (hasGap) await alertGap(deps, merchant, from)
  const since = new Date(from.getTime() - timing.listedLate)
  for (let isAll = false; !isAll;) {
    const missed = await readMissed(deps, merchant, since)
    await change((tx) => insertEvents(tx, missed.events), longLockTimeout)
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

// About 50 MB.
const maxBatchSize = 10_000

/**
 * Lists events that the processor has and that did not arrive, oldest first.
 *
 * @param maxPages reads only the newest pages of 100 events
 * @returns only the oldest events if there are very many; the next call returns more
 */
async function readMissed(
  deps: BillingDependencies,
  merchant: string,
  since: Date,
  maxPages = Infinity,
): Promise<{ events: NewInboxEvent[]; isAll: boolean }> {
  const missed: ListedEvent[] = []
  let isAll = true
  let pages = 0
  for await (const page of deps.processor.listEvents(merchant, since)) {
    missed.push(...(await missedOf(deps, page)))
    if (missed.length > maxBatchSize) isAll = false
    missed.splice(0, missed.length - maxBatchSize)
    pages += 1
    if (pages === maxPages) break
  }
  return { events: await forInbox(deps, merchant, missed), isAll }
}

/** The most recent events that did not arrive: they may have been lost. */
export async function readNewest(deps: BillingDependencies, merchant: string): Promise<NewInboxEvent[]> {
  const since = new Date((await databaseTime(deps.sql)).getTime() - timing.listedLate)
  return (await readMissed(deps, merchant, since, 3)).events
}

async function missedOf(
  { sql, processor }: BillingDependencies,
  page: ListedEvent[],
): Promise<ListedEvent[]> {
  const events = page.filter((event) => processor.understands(event.type))
  const ids = events.map((event) => event.eventId)
  const known = await findKnownEvents(sql, processor.name, ids)
  return events.filter((event) => !known.has(event.eventId))
}

/** @returns the events as they can be read, oldest first */
async function forInbox(
  { processor }: BillingDependencies,
  merchant: string,
  newestFirst: ListedEvent[],
): Promise<NewInboxEvent[]> {
  const oldestFirst = newestFirst.toReversed().sort((a, b) => a.createdAt - b.createdAt)
  const events = await processor.inUsedVersion(merchant, oldestFirst)
  return events.map(({ eventId, type, body }) => ({
    processor: processor.name,
    eventId,
    merchant,
    type,
    body,
  }))
}
