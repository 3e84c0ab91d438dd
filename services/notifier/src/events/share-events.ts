import type { Transaction } from '@licensing/database/connect'
import { BatchTooLarge } from '@licensing/events/consumer-options'
import type { Received } from '@licensing/events/consumer-options'
import { Counter } from 'prom-client'
import { findDeferredAccounts, insertDeferred } from './deferred-queries.ts'
import { validTraceParent } from './record-events.ts'

export type Consume = (tx: Transaction, received: Received[]) => Promise<() => void>

/** Of one account in one batch: what follows it in its partition waits meanwhile. */
const mostOfAccount = 50

const deferredTotal = new Counter({
  name: 'events_deferred_total',
  help: 'Events of accounts that sent more at once than their share: recorded in turn with those of others',
})

/**
 * An account's share of a partition: what it sends beyond that is put into a line of its own, which costs little, and
 * the events of other accounts behind it are recorded at once. Its later events follow through the line, in order.
 *
 * @param on.deferred called after the commit of events that were put in line
 * @param on.others called where there are events of accounts that have none in line
 */
export function shareEvents(consume: Consume, on: { deferred: () => void; others: () => void }): Consume {
  return async (tx, received) => {
    const counts = new Map<string, number>()
    for (const { event } of received) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
    const inLine = await findDeferredAccounts(tx, [...counts.keys()])
    if (inLine.size === 0 && Math.max(...counts.values()) <= mostOfAccount) {
      on.others()
      return consume(tx, received)
    }

    const record = async ({ now, later }: { now: Received[]; later: Received[] }) => {
      const deferred = new Set(later.map(({ event }) => event.accountId))
      if (now.some(({ event }) => !deferred.has(event.accountId))) on.others()
      const send = now.length > 0 ? await consume(tx, now) : undefined
      await insertDeferred(tx, later.map(toDeferred))
      return () => {
        send?.()
        deferredTotal.inc(later.length)
        on.deferred()
      }
    }
    const parts = split(received, inLine, mostOfAccount)
    if (parts.now.length === 0) return record(parts)
    try {
      return await tx.savepoint(() => record(parts))
    } catch (error) {
      if (!(error instanceof BatchTooLarge)) throw error
      // With so many endpoints one event of each account is enough.
      return record(split(received, inLine, 1))
    }
  }
}

/** The first events of each account that has none in line, and all others. */
function split(
  received: Received[],
  inLine: Set<string>,
  most: number,
): { now: Received[]; later: Received[] } {
  const taken = new Map<string, number>()
  const [now, later]: Received[][] = [[], []]
  for (const each of received) {
    const { accountId } = each.event
    const count = (taken.get(accountId) ?? 0) + 1
    taken.set(accountId, count)
    const list = inLine.has(accountId) || count > most ? later : now
    list!.push(each)
  }
  return { now: now!, later: later! }
}

function toDeferred({ event, payload, traceParent }: Received) {
  return { account_id: event.accountId, payload, trace_parent: validTraceParent(traceParent) }
}
