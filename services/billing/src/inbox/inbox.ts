import type { Loop } from '@licensing/process/loop'
import { Gauge } from 'prom-client'
import { accountsOf } from '../connections/connection-queries.ts'
import { alertVendor } from '../alerts/alert-vendor.ts'
import type { BillingDeps } from '../dependencies.ts'
import { startRounds } from '../start-rounds.ts'
import { handleEvent } from './handle-event.ts'
import {
  claimEvents,
  countWaiting,
  finishEvent,
  nextDue,
  postponeEvent,
  renewLeases,
} from './inbox-queries.ts'
import type { InboxEvent } from './inbox-queries.ts'
import { isParked, retryDelayMs } from './retries.ts'

// A worker that died gives its events up after this long; one that lives renews in time.
const leaseMs = 10_000
const renewMs = 3_000
const mostTogether = 8
// What other replicas received, and what they left when they died, is found by this.
const pollMs = 250

const waiting = new Gauge({ name: 'processor_events_waiting', help: 'Processor events not handled yet' })
const parked = new Gauge({
  name: 'processor_events_parked',
  help: 'Processor events that keep failing: look at their last_error',
})

/** Works through the processor's events, on every replica; no event is with two of them at a time. */
export function startInbox(deps: BillingDeps): Pick<Loop, 'wake' | 'stop'> {
  const inHand = new Map<bigint, Promise<void>>()
  const loop = startRounds('inbox', deps.log, pollMs, async () => {
    const events = await claimEvents(deps.sql, mostTogether - inHand.size, leaseMs)
    for (const event of events) {
      const work = take(deps, event, () => inHand.delete(event.position))
        .catch((error: unknown) => deps.log.warn({ err: error, event: event.event_id }, 'lease runs out'))
        .finally(() => {
          inHand.delete(event.position)
          loop.wake()
        })
      inHand.set(event.position, work)
    }
    if (inHand.size >= mostTogether) await Promise.race(inHand.values())
    if (events.length > 0) return 0
    await measure(deps)
    return untilDue(await nextDue(deps.sql))
  })
  const renewal = startRounds('leases', deps.log, renewMs, async () => {
    if (inHand.size > 0) await renewLeases(deps.sql, [...inHand.keys()], leaseMs)
  })
  return {
    wake: () => loop.wake(),
    async stop() {
      await loop.stop()
      await Promise.all(inHand.values())
      await renewal.stop()
    },
  }
}

function untilDue(at: Date | undefined): number {
  const ms = at ? at.getTime() - Date.now() : pollMs
  return Math.min(pollMs, Math.max(1, ms))
}

async function measure({ sql }: BillingDeps): Promise<void> {
  const counts = await countWaiting(sql)
  waiting.set(counts.waiting)
  parked.set(counts.parked)
}

/** @param leave called before the event is given back, so that its lease is not renewed any more */
async function take(deps: BillingDeps, event: InboxEvent, leave: () => void): Promise<void> {
  const { sql, log } = deps
  try {
    const again = await handleEvent(deps, event)
    leave()
    if (again) await postponeEvent(sql, event.position, again, undefined)
    else await finishEvent(sql, event.position)
  } catch (error) {
    leave()
    const about = { err: error, event: event.event_id, type: event.type, attempts: event.attempts }
    const parkNow = isParked(event.attempts)
    if (parkNow) log.error(about, 'processor event keeps failing')
    else log.warn(about, 'processor event not handled yet')
    const problem = { error: String(error).slice(0, 500), parked: parkNow }
    const at = new Date(Date.now() + retryDelayMs(event.attempts))
    await postponeEvent(sql, event.position, at, problem)
    if (parkNow && !event.parked) await tellVendors(deps, event)
  }
}

async function tellVendors({ sql, outbox }: BillingDeps, event: InboxEvent): Promise<void> {
  await outbox.transaction(async (tx) => {
    for (const accountId of await accountsOf(sql, event.merchant)) {
      await alertVendor(tx, accountId, {
        subject: 'An event of the payment processor cannot be handled',
        text: `Event ${event.event_id} (${event.type}) of ${event.merchant} has failed ${event.attempts} times. It is kept and tried again; until it succeeds, what it tells of has no effect on licences and fees.`,
      })
    }
  })
}
