import type { BillingDependencies } from '../dependencies.ts'
import { findKnownEvents } from '../fulfilment/record-queries.ts'
import type { NewInboxEvent } from '../fulfilment/record-queries.ts'
import { timing } from '../fulfilment/timing.ts'
import type { ListedEvent } from '../processors/processor.ts'

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
