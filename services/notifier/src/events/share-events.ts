import type { Transaction } from '@licensing/database/connect'
import type { Received } from '@licensing/events/consumer-options'
import { Counter } from 'prom-client'
import type { Consume } from './consume-events.ts'
import { insertDeferred } from './deferred-queries.ts'
import { validTraceParent } from './record-events.ts'

// Of one account in one batch: what follows them in their partition waits meanwhile.
const mostOfAccount = 50

const deferredTotal = new Counter({
  name: 'events_deferred_total',
  help: 'Events of accounts that sent more at once than their share: recorded in turn with those of others',
})

/**
 * An account's share of a partition: where it sends more at once, all of that is put into a line of its own, which costs
 * little, and the events of other accounts behind it are recorded at once. Its later events follow through the line, in
 * order.
 *
 * @param on.deferred called after the commit of events that were put in line
 * @param on.others called where there are events of accounts that have none in line
 */
export function shareEvents(consume: Consume, on: { deferred: () => void; others: () => void }) {
  return async (tx: Transaction, received: Received[]): Promise<() => void> => {
    const counts = new Map<string, number>()
    for (const { event } of received) counts.set(event.accountId, (counts.get(event.accountId) ?? 0) + 1)
    const hasMany = ({ event }: Received) => counts.get(event.accountId)! > mostOfAccount
    const few = received.filter((each) => !hasMany(each))
    const { send, inLine } = await consume(tx, few, false)
    const deferred = received.filter((each) => hasMany(each) || inLine.has(each.event.accountId))
    if (few.some(({ event }) => !inLine.has(event.accountId))) on.others()
    if (deferred.length === 0) return send
    await insertDeferred(tx, deferred.map(toDeferred))
    return () => {
      send()
      deferredTotal.inc(deferred.length)
      on.deferred()
    }
  }
}

function toDeferred({ event, payload, traceParent }: Received) {
  return { account_id: event.accountId, payload, trace_parent: validTraceParent(traceParent) }
}
