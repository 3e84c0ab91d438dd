import type { Loop } from '@licensing/process/loop'
import { alertOnce } from '../alerts/alert-vendor.ts'
import { closeAlerts } from '../alerts/open-alert-queries.ts'
import { accountsOf } from '../connected-accounts/connection-queries.ts'
import type { BillingDependencies } from '../dependencies.ts'
import type { ListedEvent } from '../processor/processor.ts'
import { timing } from '../purchases/timing.ts'
import { startRounds } from '../start-rounds.ts'
import { insertEvents, findKnownEvents } from './inbox-queries.ts'
import type { NewInboxEvent } from './inbox-queries.ts'
import { claimMerchant, recordReconciled, recordUnread } from './reconciliation-queries.ts'
import type { DueMerchant } from './reconciliation-queries.ts'

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
  const { sql, outbox, wake, log } = deps
  const started = new Date()
  const hasGap = started.getTime() - from.getTime() > timing.listed
  if (hasGap) await alertGap(deps, merchant, from)
  const since = new Date(from.getTime() - timing.listedLate)
  for (let isAll = false; !isAll;) {
    const missed = await readMissed(deps, merchant, since)
    await outbox.transaction((tx) => insertEvents(tx, missed.events))
    if (missed.events.length > 0) {
      log.info({ merchant, missed: missed.events.length }, 'read events that had not arrived')
      wake('record')
    }
    isAll = missed.isAll
  }
  await recordReconciled(sql, merchant, started)
  if (hasGap) await closeAlerts(sql, await accountsOf(sql, merchant), kind)
}

async function alertGap({ outbox }: BillingDependencies, merchant: string, from: Date): Promise<void> {
  await outbox.transaction(async (tx) =>
    alertOnce(tx, await accountsOf(tx, merchant), {
      kind,
      subject: 'Events of the payment processor may have been missed',
      text: `The events of ${merchant} could not be read since ${from.toISOString()}. The payment processor lists none that are older than 30 days: compare payments, refunds and chargebacks from then on with its records.`,
    }),
  )
}

// Some 50 MB.
const mostTogether = 10_000
// The newest 300 events: a look, not a comparison.
const pagesOfLook = 3

/**
 * Events that the processor lists and that have not arrived, oldest first.
 *
 * @returns if there are very many, the oldest of them: the others are missed again
 */
export async function readMissed(
  deps: BillingDependencies,
  merchant: string,
  since: Date,
): Promise<{ events: NewInboxEvent[]; isAll: boolean }> {
  let missed: ListedEvent[] = []
  let isAll = true
  for await (const page of deps.processor.listEvents(merchant, since)) {
    missed.push(...(await missedOf(deps, page)))
    if (missed.length <= mostTogether) continue
    missed = missed.slice(-mostTogether)
    isAll = false
  }
  return { events: oldestFirst(deps, merchant, missed), isAll }
}

/** The same among the newest events of the list: what was lost in the last moments. */
export async function readNewest(deps: BillingDependencies, merchant: string): Promise<NewInboxEvent[]> {
  const missed: ListedEvent[] = []
  let pages = 0
  for await (const page of deps.processor.listEvents(merchant, new Date(Date.now() - timing.listedLate))) {
    missed.push(...(await missedOf(deps, page)))
    pages += 1
    if (pages === pagesOfLook) break
  }
  return oldestFirst(deps, merchant, missed)
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

function oldestFirst(
  { processor }: BillingDependencies,
  merchant: string,
  newestFirst: ListedEvent[],
): NewInboxEvent[] {
  return newestFirst
    .toReversed()
    .sort((a, b) => a.createdAt - b.createdAt)
    .map(({ eventId, type, body }) => ({ processor: processor.name, eventId, merchant, type, body }))
}
